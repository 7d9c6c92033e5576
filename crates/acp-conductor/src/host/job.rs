//! Windows: a job object, the set of a process and all that it starts.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::ptr;

use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
};

/// The creation flag of a process that waits for [`resume`].
pub const START_SUSPENDED: u32 = CREATE_SUSPENDED;

/// The exit code of processes that are ended with their job.
const ENDED: u32 = 1;

/// A job whose processes end when the last handle of it is closed. There is one handle, which nobody
/// inherits.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    pub fn new() -> io::Result<Job> {
        // SAFETY: no attributes and no name; the handle is checked before it is used.
        let handle = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        let job = Job(owned(handle)?);
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the structure is the one that belongs to the class, and its size is given.
        check(unsafe {
            SetInformationJobObject(
                job.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            )
        })?;
        Ok(job)
    }

    /// Adds a process, and whatever it starts from now on.
    pub fn add(&self, process: RawHandle) -> io::Result<()> {
        // SAFETY: both handles are open; a wrong one is an error, not a fault.
        check(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process) })
    }

    /// Ends all its processes. Those that have ended already do not matter.
    pub fn end(&self) {
        // SAFETY: the handle is open.
        let _ = unsafe { TerminateJobObject(self.0.as_raw_handle(), ENDED) };
    }
}

/// Lets a process run that was started suspended: it has one thread.
pub fn resume(process: u32) -> io::Result<()> {
    // SAFETY: no pointers; the handle is checked before it is used.
    let snapshot = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut thread =
        THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..Default::default() };
    // SAFETY: the snapshot is open, and the structure says how large it is.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut thread) };
    while more != 0 {
        if thread.th32OwnerProcessID == process {
            // SAFETY: no pointers; the handle is checked before it is used.
            let handle =
                owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread.th32ThreadID) })?;
            // SAFETY: the handle is open and has the right that this needs.
            return match unsafe { ResumeThread(handle.as_raw_handle()) } {
                u32::MAX => Err(io::Error::last_os_error()),
                _ => Ok(()),
            };
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut thread) };
    }
    Err(io::Error::other("it has no thread"))
}

/// Takes a handle that a function has just made, or its error.
fn owned(handle: RawHandle) -> io::Result<OwnedHandle> {
    // Functions say with one or the other that there is no handle.
    if handle.is_null() || handle.addr() == usize::MAX {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and nobody else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn check(success: i32) -> io::Result<()> {
    if success == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
