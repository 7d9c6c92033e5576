//! Windows job objects. A job contains a process and everything that it starts.

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

/// The creation flag of a process that is suspended until [`resume`].
pub(crate) const START_SUSPENDED: u32 = CREATE_SUSPENDED;

/// The exit code of processes that are killed with their job.
const KILLED: u32 = 1;

/// A job whose processes are killed when its last handle is closed. There is one handle, and it is not
/// inherited.
#[derive(Debug)]
pub(crate) struct Job(OwnedHandle);

impl Job {
    /// An empty job.
    pub(crate) fn new() -> io::Result<Job> {
        // SAFETY: no attributes and no name; the handle is checked before it is used.
        let handle = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        let job = Job(owned(handle)?);
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the structure matches the information class, and its size is passed.
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

    /// Adds a process, and everything that it starts from now on.
    pub(crate) fn add(&self, process: RawHandle) -> io::Result<()> {
        // SAFETY: both handles are open; an invalid handle is reported as an error.
        check(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process) })
    }

    /// Kills all processes of the job.
    pub(crate) fn end(&self) {
        // SAFETY: the handle is open.
        let _ = unsafe { TerminateJobObject(self.0.as_raw_handle(), KILLED) };
    }
}

/// Resumes a process that was started suspended. It has a single thread.
pub(crate) fn resume(process: u32) -> io::Result<()> {
    // SAFETY: no pointers; the handle is checked before it is used.
    let snapshot = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut thread =
        THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..Default::default() };
    // SAFETY: the snapshot is open, and the structure contains its size.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut thread) };
    while more != 0 {
        if thread.th32OwnerProcessID == process {
            // SAFETY: no pointers; the handle is checked before it is used.
            let handle =
                owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread.th32ThreadID) })?;
            // SAFETY: the handle is open and has the required access right.
            return match unsafe { ResumeThread(handle.as_raw_handle()) } {
                u32::MAX => Err(io::Error::last_os_error()),
                _ => Ok(()),
            };
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut thread) };
    }
    Err(io::Error::other("the process has no thread"))
}

/// Takes ownership of a new handle, or returns the error of the function that created it.
fn owned(handle: RawHandle) -> io::Result<OwnedHandle> {
    // Functions report failure by one of these values.
    if handle.is_null() || handle.addr() == usize::MAX {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is open, and it has no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn check(success: i32) -> io::Result<()> {
    if success == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
