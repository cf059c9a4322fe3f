//! Waiting for what waits for nobody else.

/// What a future gives that waits for nothing but itself: the file system is on its thread alone,
/// over storage that answers at once.
///
/// # Panics
/// If it waits for something that nobody else can do.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    const POLLS_MAX: u32 = 1_000_000;
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..POLLS_MAX {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("the file system waits for ever");
}
