//! Who wants to know which cache lines an operation touches.
//!
//! A simulator that runs many processors on one thread sees no contention; it has to be told what
//! a real machine would contend for. So every node has a stand-in for each of its cache lines, and
//! an operation shows the ones that it reads and changes to a cost hook, just before it does. The
//! default cost hook is `()`: its stand-ins have no size and its calls compile to nothing.

/// Is told of every access to a cache line of the tree. A guard carries it
/// ([`pin_with`](crate::pin_with)).
pub trait CostHook {
    /// The stand-in for a cache line.
    type Line: Default + Send + Sync + 'static;

    /// The line is going to be read.
    fn read(&self, line: &Self::Line);

    /// The line is going to be changed by an atomic operation.
    fn write(&self, line: &Self::Line);
}

/// Nobody wants to know.
impl CostHook for () {
    type Line = ();

    #[inline(always)]
    fn read(&self, (): &()) {}

    #[inline(always)]
    fn write(&self, (): &()) {}
}
