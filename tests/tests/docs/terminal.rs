//! Terminals in which the README's commands are typed.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::{File, Permissions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A shell that keeps its variables from block to block, as a terminal does.
pub struct Terminal {
    folder: PathBuf,
    name: String,
    path: String,
    environment: Vec<(String, String)>,
    program: Option<Program>,
    count: usize,
}

/// What runs in a terminal until it is interrupted.
struct Program {
    child: Child,
    output: PathBuf,
}

/// A script that does what `nats pub` does, in the broker's own protocol: there is no other way
/// to have the command line of NATS on every machine that runs the tests.
const NATS: &str = r#"#!/usr/bin/env bash
set -euo pipefail
LC_ALL=C
[ "$1" = pub ] && subject=$2 body=$3 && [ $# = 3 ]
address=${NATS_URL#nats://}
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
read -r info <&3
printf 'CONNECT {"verbose":false,"pedantic":false}\r\nPUB %s %d\r\n%s\r\nPING\r\n' \
    "$subject" "${#body}" "$body" >&3
while read -r line <&3; do
    case $line in PONG*) exit 0 ;; -ERR*) echo "$line" >&2; exit 1 ;; esac
done
exit 1
"#;

/// Writes the script into a folder.
pub fn write_nats(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = folder.join("nats");
    std::fs::write(&file, NATS).unwrap();
    std::fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
}

impl Terminal {
    /// A terminal in `folder`, that finds programs in `path` first and then as this test does.
    pub fn open(
        folder: &Path,
        name: &str,
        path: &[&Path],
        environment: &[(String, String)],
    ) -> Self {
        let mut all: Vec<String> = path
            .iter()
            .map(|one| one.to_str().unwrap().to_owned())
            .collect();
        all.push(std::env::var("PATH").unwrap());
        Terminal {
            folder: folder.to_owned(),
            name: name.to_owned(),
            path: all.join(":"),
            environment: environment.to_vec(),
            program: None,
            count: 0,
        }
    }

    fn output(&mut self) -> PathBuf {
        self.count += 1;
        self.folder
            .join(format!("{}-{}.out", self.name, self.count))
    }

    fn shell(&self, script: &str, output: &Path) -> Command {
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            let shown = name.to_string_lossy().into_owned();
            let ours = shown.starts_with("POSTHORN_") && shown != "POSTHORN_NATS_SERVER";
            if ours || shown.starts_with("OTEL_") {
                command.env_remove(name);
            }
        }
        let file = File::create(output).unwrap();
        command
            .args(["-euo", "pipefail", "-c", script])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("PATH", &self.path)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        command
    }

    /// A script with the variables of earlier blocks, which keeps its own before its last command.
    fn remembering(&self, block: &str, last: &str) -> String {
        let kept = self.folder.join(format!("{}.env", self.name));
        let kept = kept.display();
        format!(
            "[ ! -e '{kept}' ] || . '{kept}'\n{block}\n\
             declare -p | grep -Ev '^declare -[a-z]*r' > '{kept}'\n{last}"
        )
    }

    /// Types a block that ends by itself, and gives what it printed.
    pub fn run(&mut self, block: &str) -> String {
        let output = self.output();
        let script = self.remembering(block, "");
        let status = self.shell(&script, &output).status().unwrap();
        let printed = std::fs::read_to_string(output).unwrap();
        assert!(status.success(), "{block}\n{status}\n{printed}");
        printed
    }

    /// Types a block whose last command runs until it is interrupted.
    pub fn start(&mut self, block: &str) {
        use std::os::unix::process::CommandExt as _;
        self.interrupt();
        let output = self.output();
        let (before, last) = block.trim_end().rsplit_once('\n').unwrap_or(("", block));
        let script = self.remembering(before, last);
        let mut command = self.shell(&script, &output);
        let child = command.process_group(0).spawn().unwrap();
        self.program = Some(Program { child, output });
    }

    /// What the running program has printed, and whether it still runs.
    pub fn printed(&mut self) -> (String, bool) {
        let program = self.program.as_mut().expect("something runs here");
        let text = std::fs::read_to_string(&program.output).unwrap();
        let runs = program.child.try_wait().unwrap().is_none();
        (text, runs)
    }

    /// Ctrl-C, and waits for the end.
    pub fn interrupt(&mut self) {
        let Some(mut program) = self.program.take() else {
            return;
        };
        let group = Pid::from_raw(i32::try_from(program.child.id()).unwrap());
        // Ended already is as good.
        let _ = killpg(group, Signal::SIGINT);
        program.child.wait().unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(program) = &self.program {
            let group = Pid::from_raw(i32::try_from(program.child.id()).unwrap());
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

#[test]
fn a_terminal_keeps_its_variables_and_fails_aloud() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::open(folder.path(), "t", &[], &[]);
    terminal.run("A='b c'\nexport D=e");
    assert_eq!(terminal.run("echo \"$A\"; printenv D"), "b c\ne\n");
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| terminal.run("false")));
    assert!(failed.is_err());
}
