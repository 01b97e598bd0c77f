//! The configuration file of a server.

use std::path::Path;

use crate::error::StartError;

/// What the file is made of.
pub(crate) struct Config<'a> {
    /// The port to listen on; 0 lets the server choose.
    pub port: u16,
    pub server_name: &'a str,
    /// An absolute path.
    pub data_dir: &'a Path,
    /// Where the server writes the port it chose.
    pub ports_dir: &'a Path,
    pub log: &'a Path,
    /// Lines inside the `jetstream` block.
    pub jetstream_extra: &'a str,
    /// Lines after all others; a repeated key takes the later value.
    pub extra: &'a str,
}

impl Config<'_> {
    /// The text of the file.
    ///
    /// `max_pending` and `write_deadline` are generous, because a client that falls behind
    /// for a moment on a loaded machine is otherwise cut off as a slow consumer.
    pub(crate) fn render(&self) -> Result<String, StartError> {
        let port = if self.port == 0 {
            "-1".to_owned()
        } else {
            self.port.to_string()
        };
        Ok(format!(
            "listen: \"127.0.0.1:{port}\"\n\
             server_name: {name}\n\
             ports_file_dir: {ports}\n\
             log_file: {log}\n\
             max_payload: 1MB\n\
             max_pending: 256MB\n\
             write_deadline: \"10s\"\n\
             jetstream {{\n  store_dir: {data}\n{jetstream}\n}}\n\
             {extra}\n",
            name = quote(self.server_name)?,
            ports = quote_path(self.ports_dir)?,
            log = quote_path(self.log)?,
            data = quote_path(self.data_dir)?,
            jetstream = self.jetstream_extra,
            extra = self.extra,
        ))
    }
}

fn quote_path(path: &Path) -> Result<String, StartError> {
    quote(path.to_str().ok_or(StartError::FolderName)?)
}

/// A string of the configuration language. Its escapes are not worth relying on for paths:
/// what would need one is refused.
fn quote(text: &str) -> Result<String, StartError> {
    if text
        .chars()
        .any(|c| c.is_control() || c == '"' || c == '\\')
    {
        return Err(StartError::FolderName);
    }
    Ok(format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(data_dir: &Path) -> Config<'_> {
        Config {
            port: 0,
            server_name: "one",
            data_dir,
            ports_dir: Path::new("/data/ports"),
            log: Path::new("/data/log"),
            jetstream_extra: "  sync_interval: always",
            extra: "debug: true",
        }
    }

    #[test]
    fn a_folder_cannot_add_lines() {
        for folder in ["/a\"b", "/a\nb", "/a\\b"] {
            let result = config(Path::new(folder)).render();
            assert!(matches!(result, Err(StartError::FolderName)), "{folder:?}");
        }
    }

    #[test]
    fn additional_lines_stand_where_they_belong() {
        let text = config(Path::new("/with space")).render().unwrap();
        assert!(text.contains("listen: \"127.0.0.1:-1\"\n"));
        assert!(text.contains("store_dir: \"/with space\"\n  sync_interval: always\n}"));
        assert!(text.ends_with("}\ndebug: true\n"));
    }
}
