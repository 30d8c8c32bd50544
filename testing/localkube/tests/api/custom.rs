//! Custom resources: defaults, pruning, refusals, rules, status and scale.

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use super::world::{World, object, refusal_of, thing};

const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was \
                         invalid; correct the existing errors to complete validation";

async fn create(world: &World, name: &str, spec: &Value) -> Result<Value, Box<Status>> {
    let created = world.things().create(&PostParams::default(), &object(&thing(name, spec))).await;
    refusal_of(created).map(|created| serde_json::to_value(created).unwrap())
}

async fn patch(world: &World, name: &str, patch: &Value) -> Result<Value, Box<Status>> {
    let patched = world.things().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    refusal_of(patched).map(|patched| serde_json::to_value(patched).unwrap())
}

#[tokio::test]
async fn defaults_are_set_and_unknown_fields_are_pruned() {
    let world = World::with_things().await;
    let spec =
        json!({"size": 1, "bogus": 1, "any": {"x": [1]}, "map": {"k": "v"}, "nothing": null, "mode": null});
    let created = create(&world, "a", &spec).await.unwrap();
    let expected = json!({
        "size": 1, "any": {"x": [1]}, "map": {"k": "v"}, "nothing": null, "flag": true, "nested": {"a": 3},
        "once": "yes",
    });
    assert_eq!(created["spec"], expected);
    assert_eq!(created["metadata"]["generation"], 1);
}

#[tokio::test]
async fn invalid_objects_are_refused_in_the_real_servers_words() {
    let world = World::with_things().await;
    let body = "in body";
    let table: Vec<(Value, Vec<String>)> = vec![
        (
            json!({"size": -1}),
            vec![
                format!("spec.size: Invalid value: -1: spec.size {body} should be greater than or equal to 0"),
                ".spec.size: Invalid value: -1: should be a non-negative integer".to_owned(),
            ],
        ),
        (
            json!({"size": 10}),
            vec![format!("spec.size: Invalid value: 10: spec.size {body} should be less than or equal to 9")],
        ),
        (
            json!({"size": "x"}),
            vec![
                format!("spec.size: Invalid value: \"string\": spec.size {body} must be of type integer: \"string\""),
                ".spec.size: Invalid value: 0: .spec.size accessor error: x is of the type string, expected int64"
                    .to_owned(),
                UNCHECKED.to_owned(),
            ],
        ),
        (json!({}), vec!["spec.size: Required value".to_owned(), UNCHECKED.to_owned()]),
        (
            json!({"size": 1, "mode": "C"}),
            vec![
                "spec.mode: Unsupported value: \"C\": supported values: \"A\", \"B\"".to_owned(),
                UNCHECKED.to_owned(),
            ],
        ),
        (
            json!({"size": 1, "name": "A9"}),
            vec![format!("spec.name: Invalid value: \"A9\": spec.name {body} should match '^[a-z]+$'")],
        ),
        (
            json!({"size": 1, "name": "abcdefgh"}),
            vec!["spec.name: Too long: may not be more than 5 bytes".to_owned(), UNCHECKED.to_owned()],
        ),
        (
            json!({"size": 1, "list": [{"k": "a"}, {"k": "a"}]}),
            vec!["spec.list[1]: Duplicate value: {\"k\":\"a\"}".to_owned()],
        ),
        (json!({"size": 1, "tags": ["a", "a"]}), vec!["spec.tags[1]: Duplicate value: \"a\"".to_owned()]),
        (
            json!({"size": 1, "map": {"a": 1}}),
            vec![
                format!("spec.map.a: Invalid value: \"integer\": spec.map.a {body} must be of type string: \"integer\""),
                UNCHECKED.to_owned(),
            ],
        ),
        (
            json!({"size": 1, "q": true}),
            vec![
                format!(
                    "spec.q: Invalid value: \"boolean\": spec.q {body} must be of type integer,string: \"boolean\""
                ),
                "<nil>: Invalid value: \"\": \"spec.q\" must validate at least one schema (anyOf)".to_owned(),
                format!("spec.q: Invalid value: \"boolean\": spec.q {body} must be of type integer: \"boolean\""),
                UNCHECKED.to_owned(),
            ],
        ),
    ];
    for (spec, expected) in table {
        let refusal = create(&world, "a", &spec).await.unwrap_err();
        let causes = match expected.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        assert_eq!(refusal.message, format!("Thing.x.io \"a\" is invalid: {causes}"), "{spec}");
        assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
        assert_eq!(refusal.details.unwrap().causes.len(), expected.len(), "{spec}");
    }
}

#[tokio::test]
async fn rules_refuse_with_their_message_field_and_reason() {
    let world = World::with_things().await;
    let failed = "failed rule: !has(self.q) || quantity(string(self.q)).isLessThan(quantity('1Gi'))";
    for (spec, field, reason, message) in [
        (
            json!({"size": 5, "mode": "A"}),
            "spec",
            "FieldValueInvalid",
            "Invalid value: five may have no mode",
        ),
        (json!({"size": 6, "mode": "A"}), "spec", "FieldValueInvalid", "Invalid value: no six"),
        (json!({"size": 7, "mode": "A"}), "spec.mode", "FieldValueForbidden", "Forbidden: seven"),
        (json!({"size": 1, "q": "2Gi"}), "spec", "FieldValueInvalid", &format!("Invalid value: {failed}")),
        (
            json!({"size": 1, "name": "nono"}),
            "spec.name",
            "FieldValueInvalid",
            "Invalid value: \"nono\": must not be no",
        ),
    ] {
        let refusal = create(&world, "a", &spec).await.unwrap_err();
        let details = refusal.details.unwrap();
        let cause = &details.causes[0];
        assert_eq!((cause.field.as_str(), cause.reason.as_str()), (field, reason), "{spec}");
        assert_eq!(cause.message, message);
    }
    let refusal = create(&world, "a-name-that-is-too-long", &json!({"size": 1})).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "Thing.x.io \"a-name-that-is-too-long\" is invalid: <nil>: Invalid value: name too long"
    );
}

#[tokio::test]
async fn transition_rules_see_the_old_object() {
    let world = World::with_things().await;
    create(&world, "a", &json!({"size": 1, "fixed": "x", "q": 5})).await.unwrap();
    for spec in [json!({"fixed": "y"}), json!({"fixed": null})] {
        let refusal = patch(&world, "a", &json!({"spec": spec})).await.unwrap_err();
        assert_eq!(refusal.message, "Thing.x.io \"a\" is invalid: spec: Invalid value: fixed may not change");
    }
    let refusal = patch(&world, "a", &json!({"spec": {"once": "no"}})).await.unwrap_err();
    assert!(refusal.message.ends_with("once is immutable"), "{}", refusal.message);
    patch(&world, "a", &json!({"spec": {"size": 2}})).await.unwrap();
}

#[tokio::test]
async fn values_that_were_invalid_before_do_not_prevent_other_changes() {
    let world = World::with_things().await;
    create(&world, "a", &json!({"size": 8})).await.unwrap();
    let stricter = json!([
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum",
         "value": 3},
    ]);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.io";
    world.send_as("PATCH", path, "application/json-patch+json", &stricter).await.unwrap();
    assert!(create(&world, "b", &json!({"size": 8})).await.is_err());
    patch(&world, "a", &json!({"spec": {"flag": false}})).await.unwrap();
    assert!(patch(&world, "a", &json!({"spec": {"size": 7}})).await.is_err());
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_of_or_ignored_by_field_validation() {
    let world = World::with_things().await;
    let path = "/apis/x.io/v1/namespaces/default/things";
    let body = thing("a", &json!({"size": 1, "bogus": 1, "nested": {"b": 1}}));
    let refusal = world.send("POST", &format!("{path}?fieldValidation=Strict"), &body).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \"spec.bogus\", \
         unknown field \"spec.nested.b\""
    );
    let request = http::Request::post(format!("{path}?fieldValidation=Warn"));
    let request = request
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes().into())
        .unwrap();
    let reply = world.client.send(request).await.unwrap();
    let warnings: Vec<_> =
        reply.headers().get_all("warning").iter().map(|one| one.to_str().unwrap()).collect();
    assert_eq!(
        warnings,
        [r#"299 - "unknown field \"spec.bogus\"""#, r#"299 - "unknown field \"spec.nested.b\"""#]
    );
}

#[tokio::test]
async fn spec_and_status_are_written_separately_and_only_the_spec_raises_the_generation() {
    let world = World::with_things().await;
    let mut with_status = thing("a", &json!({"size": 1}));
    with_status["status"] = json!({"replicas": 7});
    let created = world.things().create(&PostParams::default(), &object(&with_status)).await.unwrap();
    assert!(created.data.get("status").is_none(), "the status of a new object is not taken");

    let both = json!({"spec": {"size": 8}, "status": {"replicas": 2}, "metadata": {"labels": {"a": "b"}}});
    let params = PatchParams::default();
    let of_status = world.things().patch_status("a", &params, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(
        (&of_status.data["spec"]["size"], &of_status.data["status"]["replicas"]),
        (&json!(1), &json!(2))
    );
    assert_eq!((of_status.metadata.generation, of_status.metadata.labels), (Some(1), None));

    let of_main =
        world.things().patch("a", &params, &Patch::Merge(&json!({"status": {"replicas": 9}}))).await.unwrap();
    assert_eq!(of_main.data["status"]["replicas"], 2);
    assert_eq!(of_main.metadata.resource_version, of_status.metadata.resource_version, "nothing changed");

    let of_main = world.things().patch("a", &params, &Patch::Merge(&both)).await.unwrap();
    assert_eq!((of_main.data["spec"]["size"].clone(), of_main.metadata.generation), (json!(8), Some(2)));
}

#[tokio::test]
async fn the_scale_is_read_and_written_through_the_paths_of_the_definition() {
    let world = World::with_things().await;
    create(&world, "a", &json!({"size": 1})).await.unwrap();
    let status = json!({"status": {"replicas": 1, "selector": "app=x"}});
    world.things().patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let scale = world.things().get_scale("a").await.unwrap();
    assert_eq!(
        (scale.spec.unwrap().replicas, scale.status.unwrap().selector),
        (Some(1), Some("app=x".to_owned()))
    );

    let patch = json!({"spec": {"replicas": 3}});
    let scale =
        world.things().patch_scale("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    let thing = world.things().get("a").await.unwrap();
    assert_eq!((&thing.data["spec"]["size"], thing.metadata.generation), (&json!(3), Some(2)));

    let patch = json!({"spec": {"replicas": 100}});
    let refused = world.things().patch_scale("a", &PatchParams::default(), &Patch::Merge(&patch)).await;
    assert!(refusal_of(refused).unwrap_err().message.contains("should be less than or equal to 9"));
}

#[tokio::test]
async fn an_invalid_scale_is_refused_before_the_object_is_read() {
    let world = World::with_things().await;
    create(&world, "a", &json!({"size": 1})).await.unwrap();
    for name in ["a", "absent"] {
        let path = format!("/apis/x.io/v1/namespaces/default/things/{name}/scale");
        let scale = json!({"metadata": {"name": name}, "spec": {"replicas": "x"}});
        assert_eq!(world.send("PUT", &path, &scale).await.unwrap_err().code, 400, "{name}");
    }
    let path = "/apis/x.io/v1/namespaces/default/things/a/scale";
    let merge = "application/merge-patch+json";
    let refusal = world.send_as("PATCH", path, merge, &json!({"spec": {"replicas": "x"}})).await.unwrap_err();
    assert_eq!(refusal.code, 422, "{}", refusal.message);
    assert_eq!(world.things().get("a").await.unwrap().data["spec"]["size"], 1);
}

#[tokio::test]
async fn unsupported_patch_types_are_refused_with_an_alternative() {
    let world = World::with_things().await;
    create(&world, "a", &json!({"size": 1})).await.unwrap();
    let path = "/apis/x.io/v1/namespaces/default/things/a";
    let apply = "application/apply-patch+yaml";
    let refusal = world.send_as("PATCH", path, apply, &thing("a", &json!({"size": 2}))).await.unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (415, "UnsupportedMediaType"));
    assert!(refusal.message.contains("use kubectl apply without --server-side"));
    let strategic = "application/strategic-merge-patch+json";
    let refusal = world.send_as("PATCH", path, strategic, &json!({"spec": {"size": 2}})).await.unwrap_err();
    assert_eq!(refusal.code, 415);
}
