//! Completions and the manual, as a shell and a reader get them.

use crate::place::{Place, finished, posthorn};
use serde_json::Value;
use tokio::process::Command;

/// What bash offers after these words, the last of which is begun; `script` is the file of
/// completions.
async fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let typed = format!(
        ". '{script}'\nCOMP_WORDS=({}); COMP_CWORD={}; _posthorn posthorn '{last}' '{before}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &typed]).kill_on_drop(true);
    let (code, out, err) = finished(bash).await;
    assert_eq!(code, 0, "{err}");
    out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn bash_completes_commands_flags_and_values() {
    let place = Place::new();
    let (code, script, err) = finished(posthorn(&["completions", "bash"])).await;
    assert_eq!(code, 0, "{err}");
    let file = place.folder.path().join("posthorn.bash");
    std::fs::write(&file, script).unwrap();
    let script = file.to_str().unwrap();
    assert_eq!(offered(script, &["posthorn", "dl"]).await, ["dlq"]);
    let verbs = offered(script, &["posthorn", "dlq", ""]).await;
    for verb in ["list", "show", "replay", "purge"] {
        assert!(verbs.iter().any(|one| one == verb), "{verbs:?}");
    }
    let flags = offered(script, &["posthorn", "dlq", "list", "--re"]).await;
    assert_eq!(flags, ["--reason"]);
    let values = offered(script, &["posthorn", "tail", "--outcome", "de"]).await;
    assert_eq!(values, ["delivered", "dead"]);
    for shell in ["zsh", "fish"] {
        let (code, script, err) = finished(posthorn(&["completions", shell])).await;
        assert_eq!(code, 0, "{err}");
        assert!(
            script.contains("posthorn") && script.lines().count() > 100,
            "{shell}"
        );
    }
}

#[tokio::test]
async fn the_manual_has_a_page_for_each_command() {
    let place = Place::new();
    let folder = place.folder.path().join("man/man1");
    let given = folder.to_str().unwrap();
    let (code, out, err) = finished(posthorn(&["man", "--dir", given, "--output", "json"])).await;
    assert_eq!(code, 0, "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    let written = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(said["pages"], written);
    let page = std::fs::read_to_string(folder.join("posthorn-endpoints-recover.1")).unwrap();
    for word in ["since", "include", "POSTHORN_API_KEY"] {
        assert!(page.contains(word), "{page}");
    }
}

#[tokio::test]
async fn dlq_06_neither_help_nor_manual_shows_what_the_environment_holds() {
    let place = Place::new();
    let folder = place.folder.path().join("man1");
    let given = folder.to_str().unwrap();
    for args in [
        &["endpoints", "list", "--help"][..],
        &["man", "--dir", given],
        &["completions", "fish"],
    ] {
        let mut command = posthorn(args);
        command.env("POSTHORN_API_KEY", "phk_s3cret");
        let (code, out, err) = finished(command).await;
        assert_eq!(code, 0, "{err}");
        assert!(
            !out.contains("s3cret") && !err.contains("s3cret"),
            "{args:?}"
        );
    }
    for page in std::fs::read_dir(&folder).unwrap() {
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
        assert!(!text.contains("s3cret"));
    }
}
