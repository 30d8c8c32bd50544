//! The kinds that can be read from protobuf, with the tags of their `generated.proto`.

/// A field of a message.
pub(super) struct Field {
    pub tag: u64,
    pub name: &'static str,
    pub shape: Shape,
}

/// The type of a field.
pub(super) enum Shape {
    Text,
    /// Base64 in JSON.
    Bytes,
    Flag,
    Number,
    IntOrString,
    Message(&'static [Field]),
    List(&'static Shape),
    Map(&'static Shape),
    /// Only the server sets it: not read.
    ServerOnly,
}

use Shape::{Bytes, Flag, IntOrString, List, Map, Message, Number, ServerOnly, Text};

/// The fields of a kind; `None` if it cannot be read.
pub(super) fn of(version: &str, kind: &str) -> Option<&'static [Field]> {
    match (version, kind) {
        ("v1", "Namespace") => Some(NAMESPACE),
        ("v1", "ConfigMap") => Some(CONFIG_MAP),
        ("v1", "Secret") => Some(SECRET),
        ("v1", "ServiceAccount") => Some(SERVICE_ACCOUNT),
        ("v1", "Service") => Some(SERVICE),
        ("policy/v1", "PodDisruptionBudget") => Some(BUDGET),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => Some(REVIEW),
        _ => None,
    }
}

const fn field(tag: u64, name: &'static str, shape: Shape) -> Field {
    Field { tag, name, shape }
}

const METADATA: Field = field(
    1,
    "metadata",
    Message(&[
        field(1, "name", Text),
        field(2, "generateName", Text),
        field(3, "namespace", Text),
        field(11, "labels", Map(&Text)),
        field(12, "annotations", Map(&Text)),
        field(14, "finalizers", List(&Text)),
    ]),
);

const STATUS: Field = field(3, "status", ServerOnly);

const NAMESPACE: &[Field] =
    &[METADATA, field(2, "spec", Message(&[field(1, "finalizers", List(&Text))])), STATUS];

const CONFIG_MAP: &[Field] = &[
    METADATA,
    field(2, "data", Map(&Text)),
    field(3, "binaryData", Map(&Bytes)),
    field(4, "immutable", Flag),
];

const SECRET: &[Field] = &[
    METADATA,
    field(2, "data", Map(&Bytes)),
    field(3, "type", Text),
    field(4, "stringData", Map(&Text)),
    field(5, "immutable", Flag),
];

const SERVICE_ACCOUNT: &[Field] = &[METADATA, field(4, "automountServiceAccountToken", Flag)];

const SERVICE: &[Field] = &[
    METADATA,
    field(
        2,
        "spec",
        Message(&[
            field(
                1,
                "ports",
                List(&Message(&[
                    field(1, "name", Text),
                    field(2, "protocol", Text),
                    field(3, "port", Number),
                    field(4, "targetPort", IntOrString),
                    field(5, "nodePort", Number),
                    field(6, "appProtocol", Text),
                ])),
            ),
            field(2, "selector", Map(&Text)),
            field(3, "clusterIP", Text),
            field(4, "type", Text),
            field(7, "sessionAffinity", Text),
            field(10, "externalName", Text),
            field(13, "publishNotReadyAddresses", Flag),
        ]),
    ),
    STATUS,
];

const BUDGET: &[Field] = &[
    METADATA,
    field(
        2,
        "spec",
        Message(&[
            field(1, "minAvailable", IntOrString),
            field(
                2,
                "selector",
                Message(&[
                    field(1, "matchLabels", Map(&Text)),
                    field(
                        2,
                        "matchExpressions",
                        List(&Message(&[
                            field(1, "key", Text),
                            field(2, "operator", Text),
                            field(3, "values", List(&Text)),
                        ])),
                    ),
                ]),
            ),
            field(3, "maxUnavailable", IntOrString),
            field(4, "unhealthyPodEvictionPolicy", Text),
        ]),
    ),
    STATUS,
];

const REVIEW: &[Field] = &[
    METADATA,
    field(
        2,
        "spec",
        Message(&[
            field(
                1,
                "resourceAttributes",
                Message(&[
                    field(1, "namespace", Text),
                    field(2, "verb", Text),
                    field(3, "group", Text),
                    field(4, "version", Text),
                    field(5, "resource", Text),
                    field(6, "subresource", Text),
                    field(7, "name", Text),
                ]),
            ),
            field(2, "nonResourceAttributes", Message(&[field(1, "path", Text), field(2, "verb", Text)])),
        ]),
    ),
    STATUS,
];
