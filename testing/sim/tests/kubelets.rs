//! What passes where kubelets bring Secrets, and what is seen of certificates then.

use quorate_model::Span;
use quorate_sim::world::World;

/// So many looks of the operator, each once every kubelet has brought what Secrets have: that takes two minutes.
pub fn pass(world: &mut World, looks: u32) {
    for _ in 0..looks {
        while world.go().is_some() {}
        world.advance(Span::seconds(130));
        world.operate();
    }
}

/// The status and the reason of a condition.
pub fn condition(world: &World, type_: &str) -> String {
    let conditions = world.cluster().unwrap().status.unwrap().conditions;
    let found = conditions.into_iter().find(|one| one.type_ == type_).unwrap();
    format!("{} {}", found.status, found.reason)
}

/// Passes until nothing changes any more, and judges that: no rotation is left, and every certificate is issued.
#[track_caller]
pub fn rest(world: &mut World) {
    pass(world, 40);
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
    let status = world.cluster().unwrap().status.unwrap();
    assert!(status.certificates.unwrap().rotation.is_none(), "it has ended");
    assert_eq!(condition(world, "TLSReady"), "True CertificatesIssued");
}
