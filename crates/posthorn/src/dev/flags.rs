//! The flags of another service beside those of this command.
//!
//! clap puts each struct of flags into a group that has the struct's name, and every service
//! calls its struct `Settings`. Here the flags are taken over without the group.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use serde::{Serialize, Serializer};

/// The flags of `T`, in no group.
#[derive(Clone, Debug)]
pub(crate) struct Ungrouped<T>(pub T);

impl<T: Args> Args for Ungrouped<T> {
    fn augment_args(command: Command) -> Command {
        take_over(command, T::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        take_over(command, T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Ungrouped<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Ungrouped)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Serialize> Serialize for Ungrouped<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn take_over(command: Command, augment: fn(Command) -> Command) -> Command {
    let own = augment(Command::new("flags"));
    command.args(own.get_arguments().cloned())
}
