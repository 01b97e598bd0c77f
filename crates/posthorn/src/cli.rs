//! The command line as it is typed.

use crate::bench::{BenchArgs, ServiceArgs};
use crate::command::{
    audit, breakers, deliveries, dlq, endpoints, events, keys, lanes, overview, replays, secrets,
    send, tail,
};
use crate::dev::DevConfig;
use crate::listen::ListenArgs;
use crate::manual::{CompletionsArgs, ManArgs};
use crate::output::Output;
use crate::setup::SetupConfig;
use clap::{Parser, Subcommand};

/// For scripts; it ends the long help and the manual.
const EXIT_CODES: &str = "Exit codes: 0 done; 1 refused or not succeeded; 64 asked for wrongly; \
                          69 nobody answers; 70 a failure inside.";

/// Webhook delivery on NATS JetStream.
#[derive(Debug, Parser)]
#[command(name = "posthorn", version, propagate_version = true, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// What is printed: tables for people, or the service's own answer.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "table",
        value_name = "FORM"
    )]
    pub output: Output,

    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process, on an own nats-server, for development.
    Dev(Box<DevConfig>),
    /// Make the streams, buckets and durables, and end; with `--manage-streams false` only check.
    Setup(Box<SetupConfig>),
    /// Show the installation at one glance.
    Overview(overview::OverviewArgs),
    /// Publish an event.
    Send(send::SendArgs),
    /// Manage the endpoints of a tenant.
    Endpoints(endpoints::EndpointsArgs),
    /// Look at dead letters, send them again, throw them away.
    Dlq(dlq::DlqArgs),
    /// Look at jobs that send again, and steer them.
    Replays(replays::ReplaysArgs),
    /// Look at circuit breakers, open and close them.
    Breakers(breakers::BreakersArgs),
    /// Look at endpoints whose deliveries wait in order.
    Lanes(lanes::LanesArgs),
    /// Make, list and revoke API keys.
    Keys(keys::KeysArgs),
    /// Store endpoints' secrets under the newest key.
    Secrets(secrets::SecretsArgs),
    /// Look an event up.
    Events(events::EventsArgs),
    /// Show what happened to an event; the same as `events show`.
    Deliveries(deliveries::DeliveriesArgs),
    /// Show attempts as they happen.
    Tail(tail::TailArgs),
    /// Show who did what.
    Audit(audit::AuditArgs),
    /// Receive webhooks, check their signatures and print them, for development.
    Listen(Box<ListenArgs>),
    /// Measure this machine: the whole system beside its bare parts.
    Bench(Box<BenchArgs>),
    /// Print the completions of a shell.
    Completions(CompletionsArgs),
    /// Write the manual, a page for each command.
    Man(ManArgs),
    /// One service as a process of its own, for `bench`.
    #[command(hide = true)]
    BenchService(ServiceArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_form_can_be_said_before_and_after_the_command() {
        for args in [
            ["posthorn", "--output", "json", "tail"],
            ["posthorn", "tail", "--output", "json"],
        ] {
            let cli = Cli::try_parse_from(args).unwrap();
            assert_eq!(cli.output, Output::Json);
        }
    }

    #[test]
    fn every_verb_of_the_contract_is_there() {
        let id = "ep_00000000000000000000000000000001";
        let letter = "dl_00000000000000000000000000000001";
        let lines = [
            "send invoice.paid {} --tenant t",
            "endpoints add http://127.0.0.1:9000/ --tenant t --type invoice.*",
            "endpoints list --tenant t",
            &format!("endpoints show {id} --tenant t"),
            &format!("endpoints update {id} --tenant t --timeout 5s"),
            &format!("endpoints pause {id} --tenant t"),
            &format!("endpoints resume {id} --tenant t"),
            &format!("endpoints delete {id} --tenant t"),
            &format!("endpoints rotate {id} --tenant t --overlap 1h"),
            &format!("endpoints test {id} --tenant t"),
            &format!("endpoints patch {id} --timeout 5s"),
            &format!("endpoints attempts {id} --tenant t --limit 5 --watch"),
            &format!("endpoints recover {id} --tenant t --since 6h --rate 5 --dry-run"),
            &format!("endpoints secret {id} --tenant t"),
            "dlq list --tenant t --reason exhausted",
            "dlq list --text busy --state replaying --watch --every 2s --times 3",
            "dlq list --tenant t -q",
            "dlq count --tenant t",
            &format!("dlq delete {letter} {letter}"),
            &format!("dlq show {letter}"),
            &format!("dlq show {letter} --payload"),
            &format!("dlq replay {letter}"),
            "dlq replay --tenant t --rate 10 --dry-run",
            "dlq purge --tenant t --yes",
            "replays list",
            "replays show rpl_1 --watch",
            "replays show rpl_1 --follow",
            "replays pause rpl_1",
            "replays resume rpl_1",
            "replays cancel rpl_1",
            "breakers list --watch",
            &format!("breakers show {id}"),
            &format!("breakers open {id} --for 5m"),
            &format!("breakers close {id}"),
            "overview --tenant t --watch",
            "endpoints health --trouble --watch",
            "lanes",
            "lanes --tenant t --reason breaker_open --watch",
            "secrets rotate",
            "keys add billing --tenant t --scope publish,endpoints",
            "keys list --tenant t",
            "keys revoke 0000000000000001",
            "tail --tenant t --type a.* --outcome failed --event e --status 500 --since 5m --limit 3",
            "audit --tenant t --since 1h --action endpoint.delete --key k --object o",
            "deliveries evt_1",
            "events show evt_1 --watch",
            "completions bash",
            "completions zsh",
            "completions fish",
            "man --dir d",
            "listen --fail 503:5",
            "bench --endpoints 100 --events 10",
            "bench --scenario failing --queued 100 --for 5s",
            "dev --data-dir x",
        ];
        for line in lines {
            let words = std::iter::once("posthorn").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "send",
            "endpoints list",
            "dlq show",
            "listen --fail x",
            "dev --nats-ulr x",
            "tail --output xml",
            "dlq delete",
            "dlq list --times 3",
            "replays show rpl_1 --follow --watch",
            "endpoints recover ep_1",
            "completions tcl",
            "man",
        ] {
            let words = std::iter::once("posthorn").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
