//! Managing endpoints.
//!
//! `document` reads what a caller wrote, `view` writes what is shown, `change` decides what a
//! call makes of an endpoint, `store` carries it out by compare-and-swap, `wake` sees that whoever
//! sleeps hears of it; the rest are the calls. What is secret is sealed in `store` and stays so
//! until a call is about it; `mask` is what is shown instead.

mod attempts;
mod calls;
mod change;
mod custom_headers;
mod document;
mod fields;
mod flow;
mod mask;
mod merge;
mod newest;
mod recover_call;
mod reseal;
mod retry;
mod secret_calls;
mod state_calls;
mod store;
mod test_call;
mod test_view;
mod view;
mod wake;

pub(crate) use attempts::{__path_attempts, attempts};
pub(crate) use calls::{
    __path_create, __path_delete, __path_list, __path_patch, __path_show, create, delete, list,
    patch, show,
};
pub(crate) use document::read as read_document;
pub(crate) use recover_call::{__path_recover, recover};
pub(crate) use reseal::{__path_reseal, reseal};
pub(crate) use secret_calls::{__path_rotate, __path_show_secret, rotate, show_secret};
pub(crate) use state_calls::{__path_pause, __path_resume, pause, resume};
pub(crate) use test_call::{__path_test, test};
