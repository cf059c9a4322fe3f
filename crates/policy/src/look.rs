//! What a policy asks of the cache when it looks for a page to give up, and what comes of it.

/// What is said of a frame that a policy looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Its page goes. It was not used since the last look, as far as the policy is not [told of uses](crate::Policy::hears_uses).
    Goes,
    /// Its page was used so many times since the last look, one at least, as far as they are counted. Whether it may go says the next look.
    Used(u8),
    /// It cannot go now, or has no page.
    Stays,
    /// As before, and the search is to end here.
    Ends,
}

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The page of this frame goes. The policy does not know it any more; who gives the frame another page [inserts](crate::Policy::insert) it.
    Frame(u32),
    /// The search ended where it was told to.
    Ended,
    /// No frame can go now.
    None,
}
