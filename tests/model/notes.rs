//! What came up on the way. Each must, or the model would prove less than it says.

/// A thing that can come up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Note {
    Granted,
    GivenAgain,
    Held,
    Missing,
    OtherIncarnation,
    Behind,
    Installed,
    Kept,
    Refused,
    Released,
    NotReleased,
    Expired,
    Reserved,
    Rejected,
    Stale,
    Duplicate,
    Short,
    Flushed,
    Evicted,
    Restarted,
    RolledBack,
    TwoMasters,
    RequestLost,
    RequestDelayed,
    ReplyLost,
    AnswerLost,
    Crashed,
}

impl Note {
    /// All of them, in words.
    pub const ALL: [(Self, &str); 27] = [
        (Self::Granted, "a lease was granted"),
        (Self::GivenAgain, "a lost reply was given again"),
        (Self::Held, "a lease was held by another worker"),
        (Self::Missing, "a counter was missing"),
        (Self::OtherIncarnation, "a counter was another incarnation's"),
        (Self::Behind, "a counter was behind the fence"),
        (Self::Installed, "a seed was installed"),
        (Self::Kept, "a seed found a later epoch"),
        (Self::Refused, "a seed was meant for another incarnation"),
        (Self::Released, "a lease was released"),
        (Self::NotReleased, "a late release left somebody else's lease alone"),
        (Self::Expired, "a lease ended by itself"),
        (Self::Reserved, "an order was reserved"),
        (Self::Rejected, "an order was rejected"),
        (Self::Stale, "a stale holder was refused"),
        (Self::Duplicate, "a duplicate had been decided meanwhile"),
        (Self::Short, "the stock was gone meanwhile"),
        (Self::Flushed, "a server was flushed"),
        (Self::Evicted, "a counter was evicted"),
        (Self::Restarted, "a server restarted with its memory"),
        (Self::RolledBack, "a server restarted from an old copy"),
        (Self::TwoMasters, "a lagging replica was promoted beside its master"),
        (Self::RequestLost, "a request was lost"),
        (Self::RequestDelayed, "a request was delayed"),
        (Self::ReplyLost, "a reply was lost"),
        (Self::AnswerLost, "the answer to a commit was lost"),
        (Self::Crashed, "a worker crashed"),
    ];
}

/// A set of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes(u32);

impl Notes {
    pub fn add(&mut self, note: Note) {
        self.0 |= 1 << note as u32;
    }

    pub fn include(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub fn has(self, note: Note) -> bool {
        self.0 & (1 << note as u32) != 0
    }

    /// What never came up.
    pub fn missing(self) -> Vec<&'static str> {
        Note::ALL.into_iter().filter(|(note, _)| !self.has(*note)).map(|(_, words)| words).collect()
    }
}
