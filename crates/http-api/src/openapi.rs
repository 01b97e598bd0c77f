//! What every call that wants a key may be answered with, put into a document in one place: a
//! refusal that comes from in front of the handlers is described by none of them.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{
    ContentBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, Type,
};

/// Adds to every call that may be answered with 401 that it may be answered with 429, and with
/// 503 where it does not say so itself.
pub fn describe_refusals(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            let responses = &mut operation.responses.responses;
            if !responses.contains_key("401") {
                continue;
            }
            let add = |what| RefOr::T(problem(what));
            responses
                .entry("429".to_owned())
                .or_insert_with(|| add("The key calls too often; see Retry-After"));
            responses
                .entry("503".to_owned())
                .or_insert_with(|| add("Not available now; see Retry-After"));
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ]
    .into_iter()
    .flatten()
}

fn problem(what: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
    let header = HeaderBuilder::new().schema(Some(seconds)).build();
    ResponseBuilder::new()
        .description(what)
        .content("application/problem+json", content)
        .header("Retry-After", header)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::openapi::path::{HttpMethod, OperationBuilder};
    use utoipa::openapi::{InfoBuilder, PathsBuilder};

    #[test]
    fn who_wants_a_key_may_refuse_and_who_does_not_may_not() {
        let answer = |what: &str| ResponseBuilder::new().description(what).build();
        let closed = OperationBuilder::new()
            .response("401", answer("none"))
            .response("503", answer("its own"));
        let open = OperationBuilder::new().response("200", answer("ok"));
        let paths = PathsBuilder::new()
            .path("/closed", PathItem::new(HttpMethod::Post, closed))
            .path("/open", PathItem::new(HttpMethod::Get, open));
        let mut document = OpenApi::new(InfoBuilder::new().build(), paths.build());
        describe_refusals(&mut document);
        let json = serde_json::to_value(document).unwrap();
        let closed = &json["paths"]["/closed"]["post"]["responses"];
        assert_eq!(closed["503"]["description"], "its own");
        assert!(closed["429"]["content"]["application/problem+json"].is_object());
        assert!(closed["429"]["headers"]["Retry-After"].is_object());
        let open = json["paths"]["/open"]["get"]["responses"].as_object();
        assert_eq!(open.unwrap().len(), 1);
    }
}
