//! Who runs beside whom: under these loads too many at a time would measure each other.

use tokio::sync::{Semaphore, SemaphorePermit};

/// A test under full load has room beside it for one that mostly waits.
const SEATS: u32 = 3;
static TURN: Semaphore = Semaphore::const_new(SEATS as usize);

/// For a test that mostly waits.
pub async fn light() -> SemaphorePermit<'static> {
    seats(1).await
}

/// For a test that keeps the machine busy.
pub async fn heavy() -> SemaphorePermit<'static> {
    seats(2).await
}

/// For a test that measures a rate.
pub async fn alone() -> SemaphorePermit<'static> {
    seats(SEATS).await
}

async fn seats(n: u32) -> SemaphorePermit<'static> {
    TURN.acquire_many(n).await.expect("it is never closed")
}
