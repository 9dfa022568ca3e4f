//! A bound on what one piece of work may hold, for work whose libraries cannot be told to stop.
//!
//! minijinja meters instructions and text, but not `+` of two lists: a template that doubles a list would take all
//! memory. Allocations must not unwind, so a thread that asks for more than its share stops where it is, for good, and
//! keeps what it holds; whoever waits for it is told. The caller sees to it that this happens once, not each time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

thread_local! {
    /// Bytes that this thread may still take. Threads without a bound never get near the end.
    static LEFT: Cell<isize> = const { Cell::new(isize::MAX / 2) };
    static EXCEEDED: Cell<*const AtomicBool> = const { Cell::new(std::ptr::null()) };
}

fn take(size: usize) {
    let left = LEFT.get().wrapping_sub_unsigned(size);
    LEFT.set(left);
    if left < 0 && !EXCEEDED.get().is_null() {
        stop();
    }
}

#[cold]
fn stop() -> ! {
    // SAFETY: on_bounded_thread keeps it alive for as long as this thread is.
    unsafe { (*EXCEEDED.get()).store(true, Ordering::Release) };
    loop {
        std::thread::park();
    }
}

fn give_back(size: usize) {
    LEFT.set(LEFT.get().wrapping_add_unsigned(size));
}

// SAFETY: every request is passed on as it is.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        System.alloc_zeroed(layout)
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        give_back(layout.size());
        System.dealloc(data, layout)
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        give_back(layout.size());
        System.realloc(data, layout, size)
    }
}

/// Runs `work` on a thread of its own with that much stack. `None`: it asked for more than `bytes`, and stands still.
pub fn on_bounded_thread<T: Send + 'static>(
    stack: usize,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let exceeded = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let flag = exceeded.clone();
    let run = move || {
        EXCEEDED.set(Arc::as_ptr(&flag));
        LEFT.set(isize::try_from(bytes).unwrap_or(isize::MAX));
        let result = catch_unwind(AssertUnwindSafe(work));
        EXCEEDED.set(std::ptr::null());
        let _ = sender.send(result);
    };
    let thread = std::thread::Builder::new().stack_size(stack).spawn(run).expect("a thread can be started");
    loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(result) => {
                let _ = thread.join();
                return Some(result.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            Err(_) if exceeded.load(Ordering::Acquire) => return None,
            Err(_) => {}
        }
    }
}
