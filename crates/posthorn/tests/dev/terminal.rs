//! A program in a terminal: what it writes is what a person would see drawn.

use crate::place::LIMIT;
use nix::pty::{Winsize, openpty};
use std::io::Read as _;
use std::process::Stdio;
use tokio::process::Command;

/// Runs a command to its end in a terminal of this size; everything that it wrote.
pub async fn in_terminal(mut command: Command, rows: u16, columns: u16) -> String {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let ends = openpty(Some(&size), None).unwrap();
    let mut master = std::fs::File::from(ends.master);
    let near = || Stdio::from(ends.slave.try_clone().unwrap());
    command.stdin(near()).stdout(near()).stderr(near());
    let mut child = command.env("TERM", "xterm-256color").spawn().unwrap();
    // The command's own handles are copies: without this end the reader would never see the end.
    drop((command, ends.slave));
    let reading = tokio::task::spawn_blocking(move || {
        let mut written = Vec::new();
        // The end of a terminal is an error, after everything that was written to it.
        let _ = master.read_to_end(&mut written);
        String::from_utf8_lossy(&written).into_owned()
    });
    let status = tokio::time::timeout(LIMIT, child.wait()).await.unwrap();
    let screen = reading.await.unwrap();
    assert!(status.unwrap().success(), "{screen}");
    screen
}
