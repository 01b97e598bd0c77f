//! `POST /v1/tenants/{tenant}/events`.

use super::accept::{AcceptedEvent, Submission, accept, key_reused};
use super::batch::{Form, Item, read};
use super::headers::{JSON, refuse_single, traceparent};
use crate::app::App;
use crate::path::{Params, publishing_tenant};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use futures_util::StreamExt;
use futures_util::stream;
use posthorn_broker::Patience;
use posthorn_delivery::Tenant;
use posthorn_http_api::{Identity, Problem, read_body};
use posthorn_runtime::trace::Traceparent;
use serde::Serialize;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::ToSchema;

/// Publishes of one batch that wait for their acknowledgement at the same time.
const IN_FLIGHT: usize = 64;
/// How long a whole batch is tried: a broker that is away must not hold the caller for the
/// patience of every item in turn.
const BATCH_PATIENCE: Duration = Duration::from_secs(20);
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// What became of one item.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ItemAnswer {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// The status that it would have had on its own: 202, 400, 413, 422 or 503.
    pub status: u16,
    /// The event's id, where it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether its key was accepted before, where it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// What is wrong, where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// What became of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchAnswer {
    /// One for each item, in the order of the items.
    pub results: Vec<ItemAnswer>,
}

impl ItemAnswer {
    fn new(index: usize, result: Result<AcceptedEvent, Problem>) -> ItemAnswer {
        match result {
            Ok(event) => ItemAnswer {
                index,
                status: StatusCode::ACCEPTED.as_u16(),
                id: Some(event.id.to_string()),
                duplicate: Some(event.duplicate),
                error: None,
            },
            Err(problem) => ItemAnswer {
                index,
                status: problem.status().as_u16(),
                id: None,
                duplicate: None,
                error: Some(problem),
            },
        }
    }
}

/// Publish up to 1,000 events.
///
/// A JSON array, or one JSON object a line (`application/x-ndjson`), of `type`, `payload` and,
/// where it shall be repeatable, `id`, which is the item's `Idempotency-Key`. The bytes of a
/// payload are kept as they came. Each item is accepted or refused on its own: 202 when all were
/// accepted, else 207 with what is wrong in its place, and 503 when the broker took none.
/// `Idempotency-Key` and `Deliver-At` are of single events and refused here.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/events",
    tag = "Events",
    params(("tenant" = String, Path, description = "Whose events they are")),
    request_body(content(
        (Vec<BatchItem> = "application/json"),
        (String = "application/x-ndjson"),
    ), description = "At most 1,000 payloads and 16 MiB"),
    responses(
        (status = 202, body = BatchAnswer, description = "All stored"),
        (status = 207, body = BatchAnswer, description = "Some stored; what is wrong with the others is in their places"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "Not a batch"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "Not permitted"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Another tenant"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Over the limit of a batch, which the detail states"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "No items, or more than 1,000"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away or full, and nothing was acknowledged; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn publish_batch(
    State(app): State<App>,
    caller: Identity,
    Params(tenant): Params<String>,
    request: Request,
) -> Result<(StatusCode, Json<BatchAnswer>), Problem> {
    let tenant = publishing_tenant(&caller, &tenant)?;
    let form = Form::of(request.headers())?;
    refuse_single(request.headers())?;
    let parent = traceparent(request.headers());
    let body = read_body(request.into_body(), app.max_batch).await?;
    let items = read(&body, form, app.max_payload)?;
    let results = publish_items(&app, &tenant, parent, items).await;
    answer(results)
}

/// An item of a batch.
#[derive(ToSchema)]
#[allow(
    dead_code,
    reason = "it describes what the batch reader reads without a copy"
)]
struct BatchItem {
    /// The event's type.
    r#type: String,
    /// Makes the item repeatable, as an `Idempotency-Key` does.
    id: Option<String>,
    /// Any JSON; its bytes are what receivers get.
    #[schema(value_type = Object)]
    payload: String,
}

fn answer(
    results: Vec<Result<AcceptedEvent, Problem>>,
) -> Result<(StatusCode, Json<BatchAnswer>), Problem> {
    let refused_by_broker =
        |result: &Result<_, Problem>| matches!(result, Err(p) if p.status().is_server_error());
    if results.iter().all(refused_by_broker)
        && let Some(Err(problem)) = results.first()
    {
        return Err(problem.clone());
    }
    let status = match results.iter().all(Result::is_ok) {
        true => StatusCode::ACCEPTED,
        false => StatusCode::MULTI_STATUS,
    };
    let numbered = results.into_iter().enumerate();
    let results = numbered
        .map(|(index, result)| ItemAnswer::new(index, result))
        .collect();
    Ok((status, Json(BatchAnswer { results })))
}

/// What is to be done with an item.
enum Plan {
    Publish(Box<Submission>),
    /// The same as an earlier item, by its key.
    Repeat(usize),
    Refuse(Problem),
}

async fn publish_items(
    app: &App,
    tenant: &Tenant,
    parent: Option<Traceparent>,
    items: Vec<Result<Item, Problem>>,
) -> Vec<Result<AcceptedEvent, Problem>> {
    let plans = plan(tenant, parent, items);
    let give_up = Instant::now() + BATCH_PATIENCE;
    let published = stream::iter(plans)
        .enumerate()
        .map(|(index, plan)| async move {
            match plan {
                Plan::Publish(submission) => {
                    let left = give_up.saturating_duration_since(Instant::now());
                    let patience = Patience::caller(left.max(LEAST_PATIENCE));
                    let result = accept(app, *submission, patience).await;
                    Ok(result.map_err(|problem| in_place(problem, index)))
                }
                Plan::Refuse(problem) => Ok(Err(problem)),
                Plan::Repeat(first) => Err(first),
            }
        });
    let outcomes: Vec<Result<Result<AcceptedEvent, Problem>, usize>> =
        published.buffered(IN_FLIGHT).collect().await;
    let mut results: Vec<Result<AcceptedEvent, Problem>> = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        let result = outcome.unwrap_or_else(|first| repeated(&results, first));
        results.push(result);
    }
    results
}

/// What is wrong with a key is, in a batch, wrong with an item's `id`.
fn in_place(problem: Problem, index: usize) -> Problem {
    match problem.field() {
        Some(_) => problem.about(format!("items[{index}].id")),
        None => problem,
    }
}

/// The result of an item that repeats an earlier one.
fn repeated(
    results: &[Result<AcceptedEvent, Problem>],
    first: usize,
) -> Result<AcceptedEvent, Problem> {
    let mut event = results[first].clone()?;
    event.duplicate = true;
    Ok(event)
}

/// Finds keys that come twice: published side by side, which of the two is the duplicate would
/// be a matter of luck.
fn plan(
    tenant: &Tenant,
    parent: Option<Traceparent>,
    items: Vec<Result<Item, Problem>>,
) -> Vec<Plan> {
    let mut seen: HashMap<String, (usize, u128)> = HashMap::new();
    let mut plans = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let submission = match item {
            Ok(item) => submission(tenant, parent, item),
            Err(problem) => {
                plans.push(Plan::Refuse(problem));
                continue;
            }
        };
        plans.push(plan_one(&mut seen, index, submission));
    }
    plans
}

fn plan_one(
    seen: &mut HashMap<String, (usize, u128)>,
    index: usize,
    submission: Submission,
) -> Plan {
    let Some(key) = submission.key.clone() else {
        return Plan::Publish(Box::new(submission));
    };
    let fingerprint = submission.fingerprint();
    match seen.get(&key) {
        Some((first, same)) if *same == fingerprint => Plan::Repeat(*first),
        Some(_) => Plan::Refuse(key_reused().about(format!("items[{index}].id"))),
        None => {
            seen.insert(key, (index, fingerprint));
            Plan::Publish(Box::new(submission))
        }
    }
}

fn submission(tenant: &Tenant, parent: Option<Traceparent>, item: Item) -> Submission {
    Submission {
        tenant: tenant.clone(),
        event_type: item.event_type,
        key: item.key,
        content_type: JSON.to_owned(),
        headers: Vec::new(),
        parent,
        deliver_at: None,
        only_endpoint: None,
        payload: item.payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::EventId;

    fn accepted() -> Result<AcceptedEvent, Problem> {
        Ok(AcceptedEvent {
            id: EventId::from_bits(1),
            duplicate: false,
        })
    }

    fn away() -> Result<AcceptedEvent, Problem> {
        Err(Problem::unavailable(
            "unavailable",
            "away",
            Duration::from_secs(1),
        ))
    }

    fn status(results: Vec<Result<AcceptedEvent, Problem>>) -> u16 {
        match answer(results) {
            Ok((status, _)) => status.as_u16(),
            Err(problem) => problem.status().as_u16(),
        }
    }

    #[test]
    fn ing_04_the_status_says_whether_every_item_was_accepted() {
        assert_eq!(status(vec![accepted(), accepted()]), 202);
        assert_eq!(status(vec![accepted(), Err(key_reused())]), 207);
        assert_eq!(status(vec![accepted(), away()]), 207);
        assert_eq!(status(vec![Err(key_reused()), Err(key_reused())]), 207);
        assert_eq!(status(vec![away(), away()]), 503);
    }

    #[test]
    fn ing_03_a_key_that_comes_twice_in_a_batch_is_published_once() {
        let item = |key: &str, payload: &'static str| {
            Ok(Item {
                event_type: posthorn_delivery::EventType::parse("a").unwrap(),
                key: Some(key.to_owned()),
                payload: payload.into(),
            })
        };
        let tenant = Tenant::parse("acme").unwrap();
        let items = vec![
            item("k", "1"),
            item("k", "1"),
            item("k", "2"),
            item("l", "1"),
        ];
        let plans = plan(&tenant, None, items);
        assert!(matches!(plans[0], Plan::Publish(_)));
        assert!(matches!(plans[1], Plan::Repeat(0)));
        assert!(matches!(&plans[2], Plan::Refuse(p) if p.field() == Some("items[2].id")));
        assert!(matches!(plans[3], Plan::Publish(_)));
        let repeat = repeated(&[accepted()], 0).unwrap();
        assert!(repeat.duplicate);
    }
}
