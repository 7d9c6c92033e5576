//! Information from Linux about the machine and about processes.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread, and every process it starts, on one CPU until dropped.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Uses the last allowed CPU, because the first ones handle most interrupts.
    pub fn to_one_cpu() -> Result<Self, String> {
        let before =
            sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
        let cpu = (0..CpuSet::MAX_CPU).rev().find(|cpu| before.is_set(*cpu));
        let mut one = CpuSet::new();
        one.set(cpu.ok_or("no CPU to run on")?);
        sched_setaffinity(None, &one).map_err(|error| format!("sched_setaffinity: {error}"))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(error) = sched_setaffinity(None, &self.before) {
            eprintln!("still on one CPU: {error}");
        }
    }
}

/// The CPU seconds of all threads of a process, in nanoseconds where the kernel supports it.
pub fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let tasks = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))?;
    let nanoseconds: u64 = entries
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    Ok(nanoseconds as f64 / 1e9)
}

/// The peak resident memory of a process, in MiB.
pub fn peak_memory(pid: u32) -> Result<f64, String> {
    mebibytes(pid, "VmHWM:")
}

/// The current resident memory of a process, in MiB.
pub fn memory(pid: u32) -> Result<f64, String> {
    mebibytes(pid, "VmRSS:")
}

fn mebibytes(pid: u32, key: &str) -> Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kibibytes = line.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map(|it| it / 1024.0).ok_or_else(|| format!("{path}: no {key}"))
}

/// A line about the machine and its load before the benchmark.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown CPU", |(_, name)| name.trim());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    format!("{cores} cores, {model}, Linux {}, load average at the start {load}", kernel.trim())
}
