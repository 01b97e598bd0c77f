//! Waiting for a condition, within a deadline.
//!
//! A test that sleeps is too slow on a fast machine and wrong on a slow one. Only here is
//! there a pause, between two looks at the condition.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const POLL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds.
///
/// # Errors
/// When it does not within `limit`; `what` names it in the error.
pub async fn eventually<F, Fut>(limit: Duration, what: &str, mut condition: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    eventually_some(limit, what, || {
        let held = condition();
        async move { held.await.then_some(()) }
    })
    .await
}

/// Waits until `probe` has a value, and returns it.
///
/// # Errors
/// When it has none within `limit`. A probe that hangs is given up as well.
pub async fn eventually_some<F, Fut, T>(limit: Duration, what: &str, mut probe: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let begin = Instant::now();
    let polling = async {
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(limit, polling).await {
        Ok(value) => Ok(value),
        Err(_) => bail!("not within {:.1?}: {what}", begin.elapsed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_comes_true_is_awaited() {
        let mut looks = 0;
        let result = eventually(Duration::from_secs(5), "three looks", || {
            looks += 1;
            std::future::ready(looks == 3)
        })
        .await;
        assert!(result.is_ok());
        assert_eq!(looks, 3);
    }

    #[tokio::test]
    async fn one_that_never_does_is_named() {
        let never = eventually(Duration::from_millis(30), "the impossible", || async {
            false
        });
        let error = never.await.unwrap_err().to_string();
        assert!(error.contains("the impossible"), "{error}");
    }

    #[tokio::test]
    async fn a_probe_that_hangs_is_given_up() {
        let hangs = eventually_some(Duration::from_millis(30), "an answer", || {
            std::future::pending::<Option<()>>()
        });
        assert!(hangs.await.is_err());
    }
}
