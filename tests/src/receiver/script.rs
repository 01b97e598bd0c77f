//! What one path answers, and how many requests it has in hand.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::{Received, Reply};

pub(super) type Choose = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

/// The state of one path.
#[derive(Default)]
pub(super) struct Script {
    next: VecDeque<Reply>,
    default: Option<Choose>,
    early: Option<Reply>,
    in_hand: usize,
    most: usize,
}

/// How the answer to one request is found, once no lock is held.
pub(super) enum Choice {
    Scripted(Reply),
    Chosen(Choose),
}

impl Script {
    pub(super) fn extend(&mut self, replies: impl IntoIterator<Item = Reply>) {
        self.next.extend(replies);
    }

    pub(super) fn set_default(
        &mut self,
        choose: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) {
        self.default = Some(Arc::new(choose));
    }

    pub(super) fn most_at_once(&self) -> usize {
        self.most
    }

    pub(super) fn set_early(&mut self, reply: Reply) {
        self.early = Some(reply);
    }

    /// The answer that is given before the body is read, if there is to be one.
    pub(super) fn early(&self) -> Option<Reply> {
        self.early.clone()
    }

    /// Counts a request in and says how to answer it; `early` is the answer it already has.
    pub(super) fn begin(&mut self, early: Option<Reply>) -> Choice {
        self.in_hand += 1;
        self.most = self.most.max(self.in_hand);
        if let Some(reply) = early {
            return Choice::Scripted(reply);
        }
        match (self.next.pop_front(), &self.default) {
            (Some(reply), _) => Choice::Scripted(reply),
            (None, Some(choose)) => Choice::Chosen(Arc::clone(choose)),
            (None, None) => Choice::Scripted(Reply::ok()),
        }
    }

    /// Counts a request out.
    pub(super) fn end(&mut self) {
        self.in_hand = self.in_hand.saturating_sub(1);
    }

    /// Forgets the answers and the count, not what is in hand.
    pub(super) fn clear(&mut self) {
        self.next.clear();
        self.default = None;
        self.early = None;
        self.most = self.in_hand;
    }
}

impl Choice {
    pub(super) fn reply(self, received: &Received) -> Reply {
        match self {
            Self::Scripted(reply) => reply,
            Self::Chosen(choose) => choose(received),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("scripted", &self.next.len())
            .field("in_hand", &self.in_hand)
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}
