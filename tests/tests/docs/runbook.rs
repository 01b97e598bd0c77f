//! The walk of the runbook for whoever is paged at night, typed at an endpoint that is ill.

use crate::desk::Desk;
use crate::markdown::{Block, blocks, read};

const BOOK: &str = "docs/runbook.md";
const SECTION: &str = "## Paged at night";
/// Where `dev` runs, where the receiver does, and where the operator types.
const DEV: u8 = 1;
const RECEIVER: u8 = 2;
const OPERATOR: u8 = 3;
const LISTEN: &str =
    "posthorn listen --listen 127.0.0.1:9000 --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The blocks of the walk, with their lines in the whole document.
fn walk() -> Vec<Block> {
    let book = read(BOOK);
    let begin = book.lines().position(|line| line == SECTION).unwrap() + 1;
    let rest = book.lines().skip(begin);
    let end = rest.take_while(|line| !line.starts_with("## ")).count();
    let walk = begin + 1..=begin + end;
    let all = blocks(&book).into_iter();
    all.filter(|block| walk.contains(&block.line)).collect()
}

/// An endpoint of `acme` that has refused one event for good, and is down now: its breaker is
/// open and what comes waits.
async fn fall_ill(desk: &mut Desk) {
    desk.type_in(DEV, "posthorn dev --log warn").await;
    desk.type_in(RECEIVER, &format!("{LISTEN} --fail 400:1"))
        .await;
    let send = "posthorn send invoice.paid '{\"id\":\"in_1\"}' --tenant acme";
    desk.run(
        OPERATOR,
        &format!(
            "posthorn endpoints add http://127.0.0.1:9000/ --tenant acme --type 'invoice.*' \
             --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --base 200ms --max-delay 200ms\n{send}"
        ),
    );
    desk.wait_for(OPERATOR, "posthorn dlq count --tenant acme", "1")
        .await;
    desk.type_in(RECEIVER, &format!("{LISTEN} --fail 503"))
        .await;
    for _ in 0..6 {
        desk.run(OPERATOR, send);
    }
    desk.wait_for(OPERATOR, "posthorn breakers list", "open")
        .await;
    desk.wait_for(OPERATOR, "posthorn lanes", "acme").await;
}

/// What happens elsewhere before the operator types this.
async fn meanwhile(desk: &mut Desk, block: &Block) {
    if block.text.contains("endpoints test") {
        // Whoever owns the receiver has mended it.
        desk.type_in(RECEIVER, LISTEN).await;
    }
    if block.text.contains("posthorn audit") {
        // The letter leaves the list a moment after its delivery.
        desk.wait_for(OPERATOR, "posthorn dlq count --tenant acme", "0")
            .await;
        let list = "posthorn dlq list --tenant acme";
        desk.wait_for(OPERATOR, list, "no dead letters").await;
        desk.wait_for(OPERATOR, "posthorn lanes --tenant acme", "no lanes")
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_paged_finds_mends_and_sends_again_by_the_runbook() {
    let mut desk = Desk::new().await;
    fall_ill(&mut desk).await;
    let (mut typed, mut seen) = (0, 0);
    for block in walk() {
        meanwhile(&mut desk, &block).await;
        match block.language.as_str() {
            "sh" => {
                desk.type_in(OPERATOR, &block.text).await;
                typed += 1;
            }
            "text" => {
                desk.sees(OPERATOR, BOOK, &block).await;
                seen += 1;
            }
            other => panic!("line {}: {other:?} is not run", block.line),
        }
    }
    assert!(typed >= 6 && seen >= 4, "{typed} typed, {seen} seen");
    let taken = desk.printed(RECEIVER);
    let good = taken.lines().filter(|line| line.contains(" 200 ")).count();
    // The test, the letter and the six that waited.
    assert_eq!(good, 8, "{taken}");
    desk.leave();
}
