//! What every request of one API needs: the store, and the source of container logs.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::stream::BoxStream;
use quorate_apistore::{ApiError, Store};

use crate::logs::{LogRequest, LogSource};

pub(crate) struct Shared {
    pub(crate) store: Store,
    logs: OnceLock<Arc<dyn LogSource>>,
}

impl Shared {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, logs: OnceLock::new() }
    }

    /// Sets the source of container logs. Only the first call has an effect.
    pub(crate) fn set_log_source(&self, source: Arc<dyn LogSource>) {
        let _ = self.logs.set(source);
    }

    pub(crate) fn logs(&self, request: &LogRequest) -> Result<BoxStream<'static, Bytes>, ApiError> {
        let Some(source) = self.logs.get() else {
            return Err(ApiError::bad_request("this server runs no containers and has no logs"));
        };
        source.open(request).map_err(ApiError::bad_request)
    }
}
