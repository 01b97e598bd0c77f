//! The files of the page, as they were compiled in, and the headers that keep a browser strict.
//!
//! The policy permits what is served from here and nothing else: no script or style that is
//! written into a document, no frame around it, no request to another host. Were a payload or a
//! receiver's answer ever taken for HTML, it could neither run nor call home.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthorn_delivery::ids::hash128;
use posthorn_http_api::Problem;

/// What the browser may do for the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

struct File {
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(File { path: $path, bytes: include_bytes!(concat!("web/", $path)) }),*]
    };
}

const DOCUMENT: File = File {
    path: "index.html",
    bytes: include_bytes!("web/index.html"),
};

const FILES: &[File] = files![
    "app.js",
    "icon.svg",
    "parts/api.js",
    "parts/attempts.js",
    "parts/chart.js",
    "parts/copy.js",
    "parts/dialog.js",
    "parts/dom.js",
    "parts/filter.js",
    "parts/format.js",
    "parts/json.js",
    "parts/live.js",
    "parts/notice.js",
    "parts/router.js",
    "parts/session.js",
    "parts/table.js",
    "parts/words.js",
    "style/base.css",
    "style/chart.css",
    "style/parts.css",
    "style/theme.css",
    "views/bulk.js",
    "views/endpoint.js",
    "views/endpoint-controls.js",
    "views/endpoints.js",
    "views/events.js",
    "views/jobs.js",
    "views/kept.js",
    "views/letter.js",
    "views/letters.js",
    "views/overview.js",
    "views/sign-in.js",
];

/// The document of every view.
pub(super) async fn document(headers: HeaderMap) -> Response {
    answer(&DOCUMENT, &headers)
}

/// One file of the page.
pub(super) async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.path == path) {
        Some(file) => answer(file, &headers),
        None => Problem::not_found("file").into_response(),
    }
}

fn answer(file: &File, asked: &HeaderMap) -> Response {
    let etag = etag(file);
    let known = asked
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| *known == etag);
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => file.bytes.into_response(),
    };
    let headers = response.headers_mut();
    let fixed = HeaderValue::from_static;
    headers.insert(header::CONTENT_TYPE, fixed(kind(file.path)));
    // Kept, and asked for again before each use: a new version is there at once.
    headers.insert(header::CACHE_CONTROL, fixed("no-cache"));
    headers.insert(header::ETAG, etag);
    headers.insert(header::CONTENT_SECURITY_POLICY, fixed(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(header::REFERRER_POLICY, fixed("no-referrer"));
    headers.insert("cross-origin-opener-policy", fixed("same-origin"));
    headers.insert("cross-origin-resource-policy", fixed("same-origin"));
    response
}

fn etag(file: &File) -> HeaderValue {
    let hash = hash128("page", &[file.bytes]);
    HeaderValue::try_from(format!("\"{hash:032x}\"")).expect("hexadecimal digits in quotes")
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path as FilePath;

    fn text(file: &File) -> &str {
        std::str::from_utf8(file.bytes).unwrap()
    }

    #[test]
    fn every_file_that_is_there_is_served_and_has_a_kind() {
        let root = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("src/page/web");
        let mut there = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => there.push(path.strip_prefix(&root).unwrap().to_owned()),
                }
            }
        }
        there.sort();
        let mut served: Vec<_> = FILES
            .iter()
            .map(|file| FilePath::new(file.path).to_owned())
            .collect();
        served.push("index.html".into());
        served.sort();
        assert_eq!(there, served);
        for file in FILES {
            assert_ne!(kind(file.path), "application/octet-stream", "{}", file.path);
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_or_parsed_as_markup() {
        // A namespace is a name; the others stand in commands that are shown.
        let harmless = ["www.w3.org/", "example.com/", "127.0.0.1:"];
        let all = FILES.iter().chain([&DOCUMENT]);
        for (file, text) in all.map(|file| (file.path, text(file))) {
            for (_, host) in text
                .match_indices("://")
                .map(|(at, _)| text.split_at(at + 3))
            {
                let known = harmless.iter().any(|name| host.starts_with(name));
                assert!(known, "{file}: {}", host.lines().next().unwrap_or_default());
            }
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(forbidden), "{file}: {forbidden}");
            }
        }
        let document = text(&DOCUMENT);
        assert!(!document.contains("<style") && !document.contains(" style="));
        let handler = |word: &str| word.starts_with("on") && word.contains('=');
        assert!(!document.contains("<script>") && !document.split_whitespace().any(handler));
    }

    #[test]
    fn a_browser_that_has_it_is_not_sent_it_again() {
        let first = answer(&DOCUMENT, &HeaderMap::new());
        let tag = first.headers()[header::ETAG].clone();
        let mut asked = HeaderMap::new();
        asked.insert(header::IF_NONE_MATCH, tag);
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(answer(&DOCUMENT, &asked).status(), StatusCode::NOT_MODIFIED);
    }
}
