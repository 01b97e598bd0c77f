//! Removing one message without overwriting its bytes.
//!
//! The client's own call has the server overwrite what is removed, for which it writes the
//! whole file that the message lies in anew: some 5 ms and up to 8 MB each time. What leaves a
//! lane has moved on and is not to be made unreadable; its bytes go with their file.

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::names::StreamName;
use async_nats::Request;
use async_nats::jetstream::response::Response;

/// The server's codes for a message that is not there: any more, and not yet.
const GONE: [u64; 2] = [10_043, 10_057];

#[derive(serde::Deserialize)]
struct Discarded {}

impl Broker {
    /// Removes the message at a sequence, if it is still there.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub(crate) async fn discard(
        &self,
        stream: StreamName,
        sequence: u64,
    ) -> Result<(), BrokerError> {
        let stream = self.names().stream(stream);
        let asked = serde_json::json!({ "seq": sequence, "no_erase": true });
        let request = Request::new().payload(asked.to_string().into());
        let answer = self
            .client()
            .send_request(format!("$JS.API.STREAM.MSG.DELETE.{stream}"), request)
            .await
            .map_err(BrokerError::refused)?;
        let answer = serde_json::from_slice::<Response<Discarded>>(&answer.payload);
        match answer.map_err(BrokerError::refused)? {
            Response::Ok(Discarded {}) => Ok(()),
            Response::Err { error } if GONE.contains(&error.error_code().0) => Ok(()),
            Response::Err { error } => Err(BrokerError::refused(error)),
        }
    }
}
