//! Query parameters, refused with the name of the one that is wrong.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// The query string as a value of `T`, whose `deny_unknown_fields` is heeded.
#[derive(Clone, Debug)]
pub struct Query<T>(pub T);

impl<S, T> FromRequestParts<S> for Query<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Query<T>, Problem> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|axum::extract::Query(value)| Query(value))
            .map_err(|rejection| refuse(&rejection.body_text()))
    }
}

fn refuse(text: &str) -> Problem {
    let text = text
        .strip_prefix("Failed to deserialize query string: ")
        .unwrap_or(text);
    let named = text.split('`').nth(1).filter(|_| text.contains(" field `"));
    let before_colon = || text.split_once(": ").map(|(field, _)| field);
    let field = named.or_else(before_colon).unwrap_or("query");
    let detail = text.split_once(": ").map_or(text, |(_, rest)| rest);
    Problem::bad_request("query", field, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Params {
        limit: Option<u32>,
    }

    async fn read(query: &str) -> Result<Params, Problem> {
        let uri = format!("/x?{query}");
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        Query::from_request_parts(&mut parts, &())
            .await
            .map(|Query(p)| p)
    }

    #[tokio::test]
    async fn the_parameter_is_named() {
        assert_eq!(read("limit=3").await.unwrap().limit, Some(3));
        assert_eq!(read("").await.unwrap().limit, None);
        for (query, field) in [
            ("limit=x", "limit"),
            ("limits=1", "limits"),
            ("limit=1&limit=2", "limit"),
        ] {
            let problem = read(query).await.unwrap_err();
            assert_eq!(problem.status().as_u16(), 400, "{query}");
            assert_eq!(problem.field(), Some(field), "{query}: {problem}");
        }
    }
}
