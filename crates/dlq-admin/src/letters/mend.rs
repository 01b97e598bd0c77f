//! Making the register anew, where it is lost and the letters are not.
//!
//! It is a stream of its own, so it can be: one that was deleted, or that an installation from
//! before there was a register never had, is made empty. No letter is lost by that, but none
//! would be found either. Every letter that lies dead is then entered again.

use crate::scan::{EVERYTHING, Upwards};
use crate::store::Store;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{DeadLetter, LetterState, MessageId};
use posthorn_runtime::Shutdown;

/// Letters written at a time.
const CONCURRENCY: usize = 32;

/// Looks once, and mends the register where it never held anything while there are letters.
pub async fn mend(store: Store, shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.triggered() => {}
        mended = enter_all(&store) => match mended {
            Ok(0) => {}
            Ok(entered) => tracing::warn!(entered, "the register of letters was made anew"),
            Err(error) => tracing::warn!(%error, "the register of letters could not be mended"),
        }
    }
}

async fn enter_all(store: &Store) -> Result<usize, BrokerError> {
    let (_, last) = store.register().bounds().await?;
    if last > 0 {
        return Ok(0);
    }
    let mut entered = 0;
    let mut upwards = Upwards::all(store.letters(), EVERYTHING).await?;
    while let Some(batch) = upwards.batch().await? {
        let dead = batch
            .into_iter()
            .filter(|letter| letter.value.state == LetterState::Dead);
        let done: Vec<bool> = futures_util::stream::iter(dead)
            .map(|letter| async move { enter(store, &letter).await })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        entered += done.into_iter().filter(|done| *done).count();
    }
    Ok(entered)
}

/// Writes a letter over itself, which enters it. One that has changed meanwhile was entered, or
/// waits for nobody.
async fn enter(store: &Store, letter: &Logged<DeadLetter>) -> Result<bool, BrokerError> {
    let parts: [&[u8]; 2] = [
        letter.value.id.as_str().as_bytes(),
        &letter.sequence.to_be_bytes(),
    ];
    let id = MessageId::of("letter-entered", &parts);
    let over = Some(letter.sequence);
    let written = store
        .broker()
        .publish_letter(&letter.value, id.as_str(), over);
    match written.await {
        Ok(_) => Ok(true),
        Err(BrokerError::Conflict) => Ok(false),
        Err(error) => Err(error),
    }
}
