//! Who may read metrics, where that is asked: the API server says whose a bearer token is (TokenReview), and whether that user may `get` the
//! non-resource URL `/metrics` (SubjectAccessReview). Prometheus and what scrapes for it are used to that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::METRICS_PATH;

/// For how long a token stays admitted: two scrapes in a minute cost one review, and who loses the right reads on for so long.
const ADMITTED: Duration = Duration::from_secs(60);
/// For how long it stays refused: who is given the right waits for so long.
const REFUSED: Duration = Duration::from_secs(10);
/// How many answers are kept. Whoever reaches the port can send any number of tokens.
const MOST_KEPT: usize = 256;
/// How many requests are reviewed at a time, for the same reason: the API server has more to do.
const MOST_REVIEWS: usize = 4;
/// How long a request waits for its turn and its reviews. Prometheus waits for ten seconds.
const DEADLINE: Duration = Duration::from_secs(8);

/// Asks the API server, and keeps its answers for a short time.
pub struct Access {
    client: kube::Client,
    /// By the hash of a token: no token is kept.
    kept: Mutex<HashMap<[u8; 32], Kept>>,
    reviews: Semaphore,
}

struct Kept {
    answer: Result<(), Refused>,
    until: Instant,
}

/// Why somebody may not read metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No token, or one that the API server does not accept.
    #[error("a bearer token is needed that the Kubernetes API accepts")]
    Unauthenticated,
    /// The user has no such right.
    #[error(
        "{0} may not get {METRICS_PATH}: bind it a ClusterRole with this nonResourceURL and the verb get"
    )]
    Forbidden(String),
    /// The API server did not say. That is not kept.
    #[error("the Kubernetes API did not review the token: {0}")]
    Unknown(String),
}

impl Access {
    /// Access that this API server decides about. The operator may create both kinds of reviews there.
    pub fn new(client: kube::Client) -> Self {
        Self { client, kept: Mutex::default(), reviews: Semaphore::new(MOST_REVIEWS) }
    }

    /// Whether a request with these headers may read metrics.
    pub async fn admits(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let token = bearer(headers).ok_or(Refused::Unauthenticated)?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        if let Some(answer) = self.known(&hash) {
            return answer;
        }
        let reviewed = timeout(DEADLINE, async {
            let turn = self.reviews.acquire().await;
            // Another request with this token may have had its turn meanwhile.
            if let Some(answer) = self.known(&hash) {
                return answer;
            }
            let answer = self.review(token).await;
            drop(turn);
            self.keep(hash, &answer);
            answer
        });
        let answer = reviewed.await;
        let answer = answer.unwrap_or_else(|_| Err(Refused::Unknown(format!("no answer in {DEADLINE:?}"))));
        if let Err(Refused::Unknown(why)) = &answer {
            tracing::warn!("the token of a request for metrics was not reviewed: {why}");
        }
        answer
    }

    fn known(&self, hash: &[u8; 32]) -> Option<Result<(), Refused>> {
        self.kept().get(hash).filter(|kept| Instant::now() < kept.until).map(|kept| kept.answer.clone())
    }

    fn keep(&self, hash: [u8; 32], answer: &Result<(), Refused>) {
        let time = match answer {
            Ok(()) => ADMITTED,
            Err(Refused::Unauthenticated | Refused::Forbidden(_)) => REFUSED,
            Err(Refused::Unknown(_)) => return,
        };
        let now = Instant::now();
        let mut kept = self.kept();
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, kept| now < kept.until);
        }
        // Where strangers fill it, who was admitted stays; the rest is reviewed again.
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, kept| kept.answer.is_ok());
        }
        if kept.len() < MOST_KEPT {
            kept.insert(hash, Kept { answer: answer.clone(), until: now + time });
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<[u8; 32], Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn review(&self, token: &str) -> Result<(), Refused> {
        let unknown = |error: kube::Error| Refused::Unknown(error.to_string());
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await.map_err(unknown)?.status;
        let status = status.filter(|status| status.authenticated == Some(true));
        let user = status.and_then(|status| status.user).ok_or(Refused::Unauthenticated)?;

        let name = user.username.clone().unwrap_or_default();
        let review = SubjectAccessReview { spec: wants(user), ..SubjectAccessReview::default() };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await.map_err(unknown)?.status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        if allowed { Ok(()) } else { Err(Refused::Forbidden(name)) }
    }
}

/// To get the metrics, as this user.
fn wants(user: UserInfo) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(METRICS_PATH.to_owned()),
            verb: Some("get".to_owned()),
        }),
        user: user.username,
        groups: user.groups,
        uid: user.uid,
        extra: user.extra,
        ..SubjectAccessReviewSpec::default()
    }
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let text = self.to_string();
        match self {
            Self::Unauthenticated => {
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
            }
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, text).into_response(),
            Self::Unknown(_) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::{Body, to_bytes};
    use axum::http::{Method, Request};
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};
    use tokio::time::advance;
    use tower::ServiceExt as _;

    use super::*;
    use crate::runtime::lease::Leadership;
    use crate::runtime::serve::{Metrics, metrics};

    /// The reviews of an API server: a token is the name of its user, and `prometheus` may read metrics.
    #[derive(Clone, Default)]
    struct Server {
        asked: Arc<Mutex<Vec<Value>>>,
        is_down: Arc<Mutex<bool>>,
    }

    impl Server {
        fn access(&self) -> Access {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<kube::client::Body>| {
                let server = server.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    assert_eq!(parts.method, Method::POST);
                    let review: Value = serde_json::from_slice(&body.collect_bytes().await?).unwrap();
                    let (code, reply) = server.reviewed(parts.uri.path(), review);
                    let reply =
                        axum::http::Response::builder().status(code).body(Body::from(reply.to_string()));
                    Ok::<_, kube::Error>(reply.unwrap())
                }
            });
            Access::new(kube::Client::new(service, "default"))
        }

        fn reviewed(&self, path: &str, mut review: Value) -> (u16, Value) {
            self.asked.lock().unwrap().push(json!([path, review["spec"]]));
            if *self.is_down.lock().unwrap() {
                let refusal = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no reviews for you"});
                return (403, refusal);
            }
            let spec = &review["spec"];
            review["status"] = match path {
                "/apis/authentication.k8s.io/v1/tokenreviews" => match spec["token"].as_str() {
                    Some("forged") => json!({"error": "invalid bearer token"}),
                    user => json!({"authenticated": true, "user": {
                        "username": user, "uid": "u1", "groups": ["system:authenticated"], "extra": {"pod": ["p"]},
                    }}),
                },
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => match spec["user"].as_str() {
                    Some("prometheus") => json!({"allowed": true}),
                    Some("denied") => json!({"allowed": true, "denied": true}),
                    _ => json!({"allowed": false}),
                },
                other => panic!("{other}"),
            };
            (201, review)
        }

        fn times(&self) -> usize {
            self.asked.lock().unwrap().len()
        }
    }

    /// The code of the reply to a request with this header, and its text.
    async fn asks(router: &axum::Router, authorization: Option<&str>) -> (u16, String) {
        let mut request = Request::get("/metrics");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let reply = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (code, challenge) =
            (reply.status().as_u16(), reply.headers().contains_key(header::WWW_AUTHENTICATE));
        assert_eq!(challenge, code == 401);
        let body = to_bytes(reply.into_body(), 1 << 20).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    fn served(server: &Server) -> axum::Router {
        let (own, acting) = (Registry::with_prefix("quorate"), Registry::with_prefix("quorate"));
        metrics(Metrics { own, acting, leadership: Leadership::endless(), access: Some(server.access()) })
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_token_whose_user_may_get_metrics_reads_them() {
        let server = Server::default();
        let router = served(&server);
        for none in [None, Some("prometheus"), Some("Basic prometheus"), Some("Bearer "), Some("Bearer")] {
            assert_eq!(asks(&router, none).await.0, 401, "{none:?}");
        }
        assert_eq!(server.times(), 0, "nobody is asked about no token");
        assert_eq!(asks(&router, Some("Bearer forged")).await.0, 401);
        let (code, text) = asks(&router, Some("Bearer somebody")).await;
        assert!(code == 403 && text.contains("somebody may not get /metrics"), "{code} {text}");
        assert_eq!(asks(&router, Some("Bearer denied")).await.0, 403);
        assert_eq!(asks(&router, Some("bearer  prometheus")).await, (200, String::new()));

        let asked = server.asked.lock().unwrap().last().cloned().unwrap();
        let expected = json!({
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            "user": "prometheus", "uid": "u1", "groups": ["system:authenticated"], "extra": {"pod": ["p"]},
        });
        assert_eq!(asked[1], expected, "all that the authorizer may look at");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_a_short_time() {
        let server = Server::default();
        let router = served(&server);
        for (token, code, reviews, kept) in
            [("prometheus", 200, 2, ADMITTED), ("somebody", 403, 2, REFUSED), ("forged", 401, 1, REFUSED)]
        {
            let bearer = format!("Bearer {token}");
            let before = server.times();
            assert_eq!(asks(&router, Some(&bearer)).await.0, code);
            advance(kept.saturating_sub(Duration::from_secs(1))).await;
            assert_eq!(asks(&router, Some(&bearer)).await.0, code);
            assert_eq!(server.times(), before + reviews, "{token}");
            advance(Duration::from_secs(1)).await;
            assert_eq!(asks(&router, Some(&bearer)).await.0, code);
            assert_eq!(server.times(), before + 2 * reviews, "{token}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_reviews_tokens_nobody_reads_metrics_but_who_was_just_admitted() {
        let server = Server::default();
        let router = served(&server);
        assert_eq!(asks(&router, Some("Bearer prometheus")).await.0, 200);
        *server.is_down.lock().unwrap() = true;
        assert_eq!(asks(&router, Some("Bearer prometheus")).await.0, 200);
        let (code, text) = asks(&router, Some("Bearer somebody")).await;
        assert!(code == 503 && text.contains("no reviews for you"), "{code} {text}");
        advance(ADMITTED).await;
        assert_eq!(asks(&router, Some("Bearer prometheus")).await.0, 503);
        *server.is_down.lock().unwrap() = false;
        assert_eq!(asks(&router, Some("Bearer prometheus")).await.0, 200, "what was not said is not kept");
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_tokens_come_few_answers_are_kept_and_who_was_admitted_stays() {
        let server = Server::default();
        let access = server.access();
        let headers = |token: &str| {
            HeaderMap::from_iter([(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
        };
        assert_eq!(access.admits(&headers("prometheus")).await, Ok(()));
        for n in 0..2 * MOST_KEPT {
            assert!(access.admits(&headers(&format!("stranger-{n}"))).await.is_err());
            assert!(access.kept().len() <= MOST_KEPT);
        }
        let before = server.times();
        assert_eq!(access.admits(&headers("prometheus")).await, Ok(()));
        assert_eq!(server.times(), before);
    }
}
