//! Time, and what goes wrong.

use crate::action::{Action, End};
use crate::state::{COPIES, Input, Scheduler, State, Token, Work};

impl State {
    /// Everything that waits for time has waited; `None` when nothing does.
    pub fn tick(&mut self) -> Option<()> {
        let before = *self;
        let pass = |ticks: &mut u8| *ticks = ticks.saturating_sub(1);
        pass(&mut self.breaker.wait);
        pass(&mut self.old_breaker.wait);
        for story in &mut self.stories {
            pass(&mut story.due);
        }
        for parcel in self.retries.as_mut_slice() {
            pass(&mut parcel.due);
        }
        if let Some(key) = &mut self.key.key {
            pass(&mut key.until);
        }
        if let Token::Waiting { rest, .. } = &mut self.token {
            pass(rest);
        }
        (*self != before).then_some(())
    }

    /// Acks what the step was the last write of, or not. `None` when there is nothing to ack
    /// and the step is said to end badly.
    pub fn end(&mut self, action: Action) -> Option<()> {
        let early = matches!(action.end, End::KilledAfter(_));
        let Some((process, input)) = self.unacked() else {
            return (action.end == End::Well || early).then_some(());
        };
        match (action.end, process) {
            (End::Well, Process::Scheduler(who)) => {
                self.schedulers[who].work = Work::Idle;
                self.ack(input);
            }
            (End::Well, Process::Dispatcher(who)) => {
                self.dispatchers[who] = Work::Idle;
                self.ack(input);
            }
            (End::AckLost, Process::Scheduler(who)) => {
                self.schedulers[who].work = Work::Idle;
                self.left.crashes = self.left.crashes.checked_sub(1)?;
            }
            (End::Killed, Process::Scheduler(who)) => self.kill_scheduler(who)?,
            (End::Killed, Process::Dispatcher(who)) => self.kill_dispatcher(who)?,
            // It does one thing at a time: to lose the ack is to be killed.
            (End::AckLost, Process::Dispatcher(_)) | (End::KilledAfter(_), _) => return None,
        }
        Some(())
    }

    /// No thread is in the middle of anything.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.schedulers == [Scheduler::default(); COPIES]
            && self.dispatchers == [Work::Idle; COPIES]
    }

    fn unacked(&self) -> Option<(Process, Input)> {
        let schedulers = self.schedulers.iter().map(|scheduler| scheduler.work);
        let schedulers = schedulers
            .enumerate()
            .map(|(who, work)| (Process::Scheduler(who), work));
        let dispatchers = self.dispatchers.iter().copied().enumerate();
        let dispatchers = dispatchers.map(|(who, work)| (Process::Dispatcher(who), work));
        schedulers
            .chain(dispatchers)
            .find_map(|(process, work)| match work {
                Work::Ack(input) => Some((process, input)),
                _ => None,
            })
    }

    /// Scheduler `who` is killed; `None` when it has nothing in its memory.
    pub fn kill_scheduler(&mut self, who: usize) -> Option<()> {
        if self.schedulers[who] == Scheduler::default() {
            return None;
        }
        self.left.crashes = self.left.crashes.checked_sub(1)?;
        self.schedulers[who] = Scheduler::default();
        if self.token == Token::Held(u8::try_from(who).ok()?) {
            self.token = HANDED_BACK;
        }
        Some(())
    }

    /// Dispatcher `who` is killed; `None` when it has nothing in its memory.
    pub fn kill_dispatcher(&mut self, who: usize) -> Option<()> {
        if self.dispatchers[who] == Work::Idle {
            return None;
        }
        self.left.crashes = self.left.crashes.checked_sub(1)?;
        self.dispatchers[who] = Work::Idle;
        Some(())
    }

    /// The token is handed out again although its holder lives.
    pub fn expire(&mut self) -> Option<()> {
        if !matches!(self.token, Token::Held(_)) {
            return None;
        }
        self.left.expiries = self.left.expiries.checked_sub(1)?;
        self.token = HANDED_BACK;
        Some(())
    }
}

const HANDED_BACK: Token = Token::Waiting {
    rest: 0,
    fresh: false,
};

#[derive(Clone, Copy)]
enum Process {
    Scheduler(usize),
    Dispatcher(usize),
}
