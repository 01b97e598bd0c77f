//! The list of dead letters.

use crate::app::{App, bad_parameter, filter_of};
use crate::filter::{FilterBody, LetterFilter};
use crate::scan::{Look, newest};
use crate::view::LetterItem;
use axum::Json;
use axum::extract::State;
use posthorn_broker::Logged;
use posthorn_delivery::{DeadLetter, LetterState, UnixMillis};
use posthorn_http_api::time::parse_rfc3339;
use posthorn_http_api::{Identity, List, Paging, Problem, Query};
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;

/// How far the clocks of two machines may differ before a letter is missed at an end of the
/// time asked for.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// Which letters, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LettersQuery {
    /// Of this tenant.
    tenant: Option<String>,
    /// Of this endpoint.
    endpoint: Option<String>,
    /// Of this event type; NATS wildcards are understood.
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// Dead of this reason.
    reason: Option<String>,
    /// Answered with this HTTP status by the last attempt.
    status: Option<u16>,
    /// Dead at this time (RFC 3339) or later.
    since: Option<String>,
    /// Dead before this time (RFC 3339).
    until: Option<String>,
    /// Letters of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Dead letters, newest first.
///
/// Letters whose replay was delivered have left the list. A page looks at 50,000 letters at
/// most: with a filter that matches next to none, it may have fewer items than asked for, or
/// none, and still a `next_cursor`.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    tag = "dead letters",
    operation_id = "list_dead_letters",
    params(LettersQuery),
    responses(
        (status = 200, description = "A page", body = List<LetterItem>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_letters(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<LettersQuery>,
) -> Result<Json<List<LetterItem>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let filter = filter_of(&caller, query.into(), bad_parameter)?;
    let subject = app.store.subject(&filter);
    let since = filter.asked().since.as_deref();
    let since = since.and_then(|text| parse_rfc3339(text).ok());
    let page = newest(
        app.store.letters(),
        &subject,
        paging.after_number()?,
        paging.limit(),
        |letter| look(&filter, since, letter),
    )
    .await?;
    let items = page
        .items
        .iter()
        .map(|letter| LetterItem::from(&letter.value));
    let next = page.next.map(|below| below.to_string());
    Ok(Json(List::new(items.collect(), next.as_deref(), None)))
}

impl From<LettersQuery> for FilterBody {
    fn from(query: LettersQuery) -> FilterBody {
        FilterBody {
            tenant: query.tenant,
            endpoint: query.endpoint,
            event_type: query.event_type,
            reason: query.reason,
            status: query.status,
            since: query.since,
            until: query.until,
        }
    }
}

/// A letter is stored after it died, so below one that was stored too early all died too early.
fn look(filter: &LetterFilter, since: Option<UnixMillis>, letter: &Logged<DeadLetter>) -> Look {
    if since.is_some_and(|since| letter.stored_at + CLOCK_SLACK < since) {
        return Look::Stop;
    }
    if letter.value.state != LetterState::Delivered && filter.matches(&letter.value) {
        return Look::Take;
    }
    Look::Pass
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::letter;

    fn stored(state: LetterState, at: i64) -> Logged<DeadLetter> {
        Logged {
            sequence: 1,
            subject: String::new(),
            stored_at: UnixMillis(at),
            value: DeadLetter {
                state,
                ..letter("acme", 1, at)
            },
        }
    }

    #[test]
    fn what_was_delivered_has_left_the_list() {
        let all = LetterFilter::default();
        let look = |state| look(&all, None, &stored(state, 5));
        assert_eq!(look(LetterState::Dead), Look::Take);
        assert_eq!(look(LetterState::Replaying), Look::Take);
        assert_eq!(look(LetterState::Delivered), Look::Pass);
    }

    #[test]
    fn the_search_ends_below_the_time_asked_for() {
        let all = LetterFilter::default();
        let since = Some(UnixMillis(100_000));
        let at = |millis| look(&all, since, &stored(LetterState::Dead, millis));
        assert_eq!(at(39_999), Look::Stop);
        assert_eq!(at(40_000), Look::Take);
    }
}
