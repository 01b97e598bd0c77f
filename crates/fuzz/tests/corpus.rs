//! Every file of the corpus through its target, without the engine.
#![allow(clippy::unwrap_used)]

use posthorn_fuzz::TARGETS;
use std::fs;
use std::path::Path;

#[test]
fn every_file_of_the_corpus_keeps_the_promises_of_its_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let files = fs::read_dir(&folder).unwrap();
        let read = files.map(|file| fs::read(file.unwrap().path()).unwrap());
        let count = read.inspect(|bytes| (target.run)(bytes)).count();
        assert!(count > 5, "{} has a corpus of {count}", target.name);
    }
}

#[test]
fn every_folder_of_the_corpus_has_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in fs::read_dir(corpus).unwrap() {
        let name = folder.unwrap().file_name();
        assert!(
            posthorn_fuzz::find(name.to_str().unwrap()).is_some(),
            "{name:?}"
        );
    }
}
