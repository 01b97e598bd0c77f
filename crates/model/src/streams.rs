//! What the broker does: storing under an id, tokens, compare-and-swap, and forgetting.

use crate::breaker::Breaker;
use crate::key::Key;
use crate::parcel::Parcel;
use crate::state::{Input, Next, Own, State, Token};
use crate::story::{Story, bit};

impl State {
    /// The story of the event of `parcel`.
    pub fn story_mut(&mut self, parcel: Parcel) -> &mut Story {
        &mut self.stories[usize::from(parcel.event)]
    }

    /// Stores in DELIVERIES, unless its id has been seen.
    pub fn publish_delivery(&mut self, parcel: Parcel) {
        let seen = bit(parcel.hop);
        let story = self.story_mut(parcel);
        if story.sent & seen == 0 {
            story.sent |= seen;
            self.deliveries.push(parcel);
        }
    }

    /// Stores in RETRIES, unless its id has been seen.
    pub fn publish_retry(&mut self, parcel: Parcel) {
        let seen = bit(parcel.hop);
        let story = self.story_mut(parcel);
        if story.retried & seen == 0 {
            story.retried |= seen;
            self.retries.push(parcel);
        }
    }

    /// Appends to the lane, unless its id has been seen there: a Limits stream never forgets.
    pub fn append(&mut self, parcel: Parcel) {
        let seen = bit(parcel.hop);
        let story = self.story_mut(parcel);
        if story.laned & seen == 0 {
            story.laned |= seen;
            self.lane.push(parcel);
        }
    }

    /// Acks what was taken from a work queue.
    pub fn ack(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.stories[usize::from(event)].waiting = false,
            Input::Retry(parcel) => {
                if let Some(at) = self.retries.find(parcel) {
                    self.retries.remove(at);
                }
            }
            Input::Delivery(parcel) => {
                if let Some(at) = self.deliveries.find(parcel) {
                    self.deliveries.remove(at);
                }
            }
        }
    }

    /// Whether a live process holds this message.
    #[must_use]
    pub fn is_held(&self, input: Input) -> bool {
        let same = |other: Input| match (input, other) {
            (Input::Event(one), Input::Event(other)) => one == other,
            (Input::Retry(one), Input::Retry(other))
            | (Input::Delivery(one), Input::Delivery(other)) => one.is(other),
            _ => false,
        };
        let releasing = self.schedulers.iter().filter_map(|one| one.work.input());
        let sending = self.dispatchers.iter().filter_map(|work| work.input());
        releasing.chain(sending).any(same)
    }

    /// Puts a token, unless there is one.
    pub fn put_token(&mut self) {
        if self.token == Token::None {
            self.token = Token::Waiting {
                rest: 0,
                fresh: true,
            };
        }
    }

    /// Takes the token away from the stream: whoever holds it holds nothing.
    pub fn remove_token(&mut self) {
        self.token = Token::None;
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = &mut scheduler.own {
                lead.live = false;
            }
        }
    }

    /// Writes the key; whoever knew it before will fail to write it.
    pub fn write_key(&mut self, key: Option<Key>) {
        self.key.write(key);
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = &mut scheduler.own {
                lead.lost = true;
            }
        }
    }

    /// Writes the breaker.
    pub fn write_breaker(&mut self, breaker: Breaker) {
        self.old_breaker = self.breaker;
        self.breaker = breaker;
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = &mut scheduler.own {
                lead.probed = false;
            }
        }
    }

    /// Forgets which ids the work queues have seen, of everything that is not in them.
    pub fn forget_ids(&mut self) {
        for story in &mut self.stories {
            story.sent = 0;
            story.retried = 0;
        }
        for parcel in self.deliveries.as_slice() {
            self.stories[usize::from(parcel.event)].sent |= bit(parcel.hop);
        }
        for parcel in self.retries.as_slice() {
            self.stories[usize::from(parcel.event)].retried |= bit(parcel.hop);
        }
    }

    /// How many of the first events are fanned out without a gap.
    #[must_use]
    pub fn ack_floor(&self) -> u64 {
        let fanned = self.stories.iter().take_while(|story| !story.waiting);
        fanned.count() as u64
    }

    /// An epoch above all that anybody knows of: the clock has moved on.
    #[must_use]
    pub fn next_epoch(&self) -> u8 {
        let mut most = self.key.epoch().max(self.key.old_epoch);
        let mut copy = *self;
        copy.each_parcel(&mut |parcel| most = most.max(parcel.epoch));
        for scheduler in &self.schedulers {
            if let Own::Lead(lead) = scheduler.own {
                most = most.max(lead.me.1);
                if let Next::LookAgain(key) = lead.next {
                    most = most.max(key.epoch);
                }
            }
        }
        most + 1
    }

    /// The next thing that the owner of scheduler `who` does.
    pub fn set_next(&mut self, who: usize, next: Next) {
        if let Own::Lead(lead) = &mut self.schedulers[who].own {
            lead.next = next;
        }
    }
}
