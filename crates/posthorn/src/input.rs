//! A body as it is given on the command line: text, a file, or standard input.

use crate::failure::{Failure, chain};
use std::io::Read as _;

/// The bytes that `given` stands for: `-` is standard input, `@file` a file, anything else is
/// itself. They are not looked at.
///
/// # Errors
/// [`Failure::Usage`] when the file or the input cannot be read.
pub(crate) fn read(given: &str) -> Result<Vec<u8>, Failure> {
    if given == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        let unread = |e| Failure::usage(format!("cannot read standard input: {}", chain(&e)));
        return read.map(|_| bytes).map_err(unread);
    }
    let Some(file) = given.strip_prefix('@') else {
        return Ok(given.as_bytes().to_vec());
    };
    std::fs::read(file).map_err(|e| Failure::usage(format!("cannot read {file}: {}", chain(&e))))
}

/// A header as it is given on the command line: `Name: value`.
///
/// # Errors
/// With the rule.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| "must be a name, a colon and a value".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_taken_byte_for_byte() {
        let odd = "{ \"a\" : 1.0 ,\n}";
        assert_eq!(read(odd).unwrap(), odd.as_bytes());
    }

    #[test]
    fn a_file_is_taken_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body");
        std::fs::write(&file, [0, 159, 146, 150, 10]).unwrap();
        let given = format!("@{}", file.display());
        assert_eq!(read(&given).unwrap(), [0, 159, 146, 150, 10]);
    }

    #[test]
    fn a_file_that_is_not_there_is_wrong_usage() {
        assert!(matches!(read("@no/such/file"), Err(Failure::Usage(_))));
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let parsed = header("X-Env: a:b ");
        assert_eq!(parsed, Ok(("X-Env".to_owned(), "a:b".to_owned())));
        assert!(header("X-Env").is_err());
    }
}
