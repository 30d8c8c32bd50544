//! The judge of histories: what it must let pass, and what it must refuse; made up, and made by a real etcd.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use quorate_etcd::Read;
use quorate_scenarios::history::{
    Condition, Event, Found, History, Operation, Outcome, Reply, Request, Watch,
};
use quorate_scenarios::{Playground, spec, until};

const KEY: &str = "k";

fn found(value: &str, revision: i64) -> Found {
    Found { value: value.to_owned(), revision }
}

fn done(revision: i64, swapped: bool, found: Option<Found>) -> Outcome {
    Outcome::Done(Reply { revision, swapped, found })
}

fn unknown() -> Outcome {
    Outcome::Unknown("lost".to_owned())
}

fn put(value: &str) -> Request {
    Request::Put { key: KEY.to_owned(), value: value.to_owned() }
}

fn read() -> Request {
    Request::Read { key: KEY.to_owned() }
}

fn swap(condition: Condition, value: &str) -> Request {
    Request::Swap { key: KEY.to_owned(), condition, value: value.to_owned() }
}

type Call = ((u64, u64), Request, Outcome);

/// Each by a client of its own, with these calls and ends.
fn history(calls: &[Call]) -> History {
    let of = |(client, ((call, end), request, outcome)): (usize, &Call)| Operation {
        client,
        call: *call,
        end: *end,
        request: request.clone(),
        outcome: outcome.clone(),
    };
    History { operations: calls.iter().enumerate().map(of).collect(), watches: Vec::new() }
}

fn watch(events: &[(&str, i64)]) -> Watch {
    let event = |(value, revision): &(&str, i64)| Event {
        at: 1000,
        key: KEY.to_owned(),
        found: found(value, *revision),
    };
    Watch { from: 1, events: events.iter().map(event).collect() }
}

fn refused(what: &str, history: &History) -> Result<String> {
    let verdict = history.judge(None);
    let error = verdict.err().with_context(|| format!("{what} was let pass"))?;
    let words = [
        "not linearizable",
        "nobody wrote",
        "another write",
        "others have",
        "took effect",
        "watch",
        "not written",
    ];
    ensure!(words.iter().any(|word| error.to_string().contains(word)), "{what}: {error:#}");
    Ok(error.to_string())
}

#[test]
fn what_one_copy_of_the_store_cannot_have_answered_is_refused() -> Result<()> {
    let one = || ((1, 2), put("1"), done(11, false, None));
    let two = || ((3, 4), put("2"), done(12, false, None));
    let cases: Vec<(&str, Vec<Call>)> = vec![
        ("a stale read", vec![one(), two(), ((5, 6), read(), done(12, false, Some(found("1", 11))))]),
        (
            "a stale read that admits its revision",
            vec![one(), two(), ((5, 6), read(), done(11, false, Some(found("1", 11))))],
        ),
        (
            "a read that goes back in time after another",
            vec![
                one(),
                ((3, 20), put("2"), done(12, false, None)),
                ((5, 6), read(), done(12, false, Some(found("2", 12)))),
                ((7, 8), read(), done(11, false, Some(found("1", 11)))),
            ],
        ),
        ("a lost update", vec![one(), two(), ((5, 6), read(), done(13, false, None))]),
        (
            "a value that was never written",
            vec![one(), ((3, 4), read(), done(12, false, Some(found("9", 12))))],
        ),
        (
            "a write of a revision below one that had been acknowledged before",
            vec![((1, 2), put("2"), done(12, false, None)), ((3, 4), put("1"), done(11, false, None))],
        ),
        ("two writes of one revision", vec![one(), ((1, 2), put("2"), done(11, false, None))]),
        (
            "a swap of one revision that succeeded twice",
            vec![
                one(),
                ((3, 9), swap(Condition::Revision(11), "2"), done(12, true, None)),
                ((3, 9), swap(Condition::Revision(11), "3"), done(13, true, None)),
            ],
        ),
        (
            "a swap of one value that succeeded twice",
            vec![
                one(),
                ((3, 9), swap(Condition::Value("1".to_owned()), "2"), done(12, true, None)),
                ((3, 9), swap(Condition::Value("1".to_owned()), "3"), done(13, true, None)),
            ],
        ),
        (
            "a swap that was refused though its condition held",
            vec![one(), ((3, 4), swap(Condition::Revision(11), "2"), done(11, false, Some(found("1", 11))))],
        ),
        (
            "a swap that did not write and is there",
            vec![
                one(),
                ((3, 4), swap(Condition::Revision(9), "2"), done(11, false, Some(found("1", 11)))),
                ((5, 6), read(), done(12, false, Some(found("2", 12)))),
            ],
        ),
        (
            "a put that was refused and is there",
            vec![
                one(),
                ((3, 4), put("2"), Outcome::Refused("raft proposal dropped".to_owned())),
                ((5, 6), read(), done(12, false, Some(found("2", 12)))),
            ],
        ),
        (
            "an unknown put that took effect before it was sent",
            vec![
                one(),
                ((3, 4), read(), done(12, false, Some(found("2", 12)))),
                ((5, 6), put("2"), unknown()),
            ],
        ),
        (
            "an unknown put that took effect twice",
            vec![
                ((1, 2), put("1"), unknown()),
                two(),
                ((5, 6), read(), done(13, false, Some(found("1", 11)))),
                ((7, 8), read(), done(13, false, Some(found("1", 13)))),
            ],
        ),
        (
            "an unknown put that came and went",
            vec![
                one(),
                ((3, 4), put("2"), unknown()),
                ((5, 6), read(), done(12, false, Some(found("2", 12)))),
                ((7, 8), read(), done(12, false, Some(found("1", 11)))),
            ],
        ),
    ];
    for (what, calls) in cases {
        println!("{what}: {}", refused(what, &history(&calls))?);
    }
    Ok(())
}

#[test]
fn unknown_outcomes_take_effect_late_or_never_and_calls_at_the_same_time_in_any_order() -> Result<()> {
    let one = || ((1, 2), put("1"), done(11, false, None));
    let cases: Vec<(&str, Vec<Call>)> = vec![
        ("nothing", vec![]),
        (
            "an unknown put that never took effect",
            vec![
                one(),
                ((3, 4), put("2"), unknown()),
                ((5, 6), read(), done(15, false, Some(found("1", 11)))),
            ],
        ),
        (
            "an unknown put that took effect long after its client gave up",
            vec![
                one(),
                ((3, 4), put("2"), unknown()),
                ((5, 6), read(), done(11, false, Some(found("1", 11)))),
                ((7, 8), swap(Condition::Revision(11), "3"), done(12, true, None)),
                ((90, 91), read(), done(20, false, Some(found("2", 19)))),
            ],
        ),
        (
            "an unknown swap that took effect",
            vec![
                one(),
                ((3, 4), swap(Condition::Revision(11), "2"), unknown()),
                ((5, 6), swap(Condition::Revision(11), "3"), done(12, false, Some(found("2", 12)))),
            ],
        ),
        (
            "a read during a write has the old or the new value",
            vec![
                one(),
                ((3, 9), put("2"), done(12, false, None)),
                ((4, 5), read(), done(11, false, Some(found("1", 11)))),
                ((6, 7), read(), done(12, false, Some(found("2", 12)))),
            ],
        ),
        (
            "one of two swaps wins",
            vec![
                ((1, 9), swap(Condition::Revision(0), "1"), done(11, true, None)),
                ((1, 9), swap(Condition::Revision(0), "2"), done(11, false, Some(found("1", 11)))),
            ],
        ),
    ];
    for (what, calls) in cases {
        history(&calls).judge(None).with_context(|| what)?;
    }
    Ok(())
}

#[test]
fn watches_are_ordered_unique_without_gaps_and_agree() -> Result<()> {
    let calls = history(&[
        ((1, 2), put("1"), done(11, false, None)),
        ((3, 4), put("2"), unknown()),
        ((5, 6), put("3"), done(13, false, None)),
    ]);
    let with = |watches: &[&[(&str, i64)]]| {
        let watches = watches.iter().map(|events| watch(events)).collect();
        History { watches, ..calls.clone() }
    };
    let whole: &[(&str, i64)] = &[("1", 11), ("2", 12), ("3", 13)];
    with(&[whole, whole]).judge(None)?;
    with(&[whole, &whole[..1]]).judge(None).context("one that ended earlier")?;
    with(&[&[("1", 11), ("3", 13)]]).judge(None).context("the unknown put never took effect")?;
    let bad: [(&str, &[(&str, i64)]); 7] = [
        ("a gap that another watch shows", &[("1", 11), ("3", 13)]),
        ("a gap that an acknowledged write shows", &[("2", 12), ("3", 13)]),
        ("an event twice", &[("1", 11), ("1", 11), ("2", 12), ("3", 13)]),
        ("events out of order", &[("2", 12), ("1", 11), ("3", 13)]),
        ("another value", &[("1", 11), ("3", 12)]),
        ("another revision", &[("1", 11), ("2", 12), ("3", 14)]),
        ("what nobody wrote", &[("1", 11), ("9", 12), ("3", 13)]),
    ];
    for (what, bad) in bad {
        println!("{what}: {}", refused(what, &with(&[whole, bad]))?);
    }
    Ok(())
}

/// As long as the history of a scenario gets, with calls that overlap.
#[test]
fn a_long_history_is_judged_in_less_than_a_second() -> Result<()> {
    let mut calls: Vec<Call> = Vec::new();
    for number in 0..1500_u64 {
        let (at, revision) = (number * 10, i64::try_from(number)? + 2);
        let outcome = if number % 10 == 0 { unknown() } else { done(revision, false, None) };
        calls.push(((at, at + 35), put(&number.to_string()), outcome));
        let value = Some(found(&number.to_string(), revision));
        calls.push(((at + 1, at + 38), read(), done(revision, false, value)));
    }
    let (long, start) = (history(&calls), Instant::now());
    long.judge(None)?;
    ensure!(start.elapsed().as_millis() < 1000, "{:?} for {} calls", start.elapsed(), calls.len());
    Ok(())
}

/// A member that is cut off answers a serializable read from what it has: recorded as if it were a linearizable one, it is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_through_a_member_that_is_cut_off_is_refused_as_a_linearizable_one() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let members = world.members("demo").await?;
    let of = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, client)| client);
    let (near, far) = (of("demo-0").context("demo-0")?, of("demo-1").context("demo-1")?);
    let node = world.pods().get("demo-1").await?.spec.and_then(|spec| spec.node_name).context("a node")?;

    let start = Instant::now();
    let now = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut calls: Vec<Call> = Vec::new();
    let call = now();
    let first = near.put(KEY, "first").await?;
    calls.push(((call, now()), put("first"), done(first.0, false, None)));
    until("demo-1 has it", async || {
        let has = far.get(KEY, Read::Serializable).await?.is_some();
        Ok(if has { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    world.fault(&["partition", &node])?;
    until("demo-1 has no leader", async || {
        Ok(if far.status().await?.leader.is_none() { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    let read_at = async |member: &quorate_etcd::MemberClient, how: Read| {
        let call = now();
        let value = member.get(KEY, how).await?.context("it has the key")?;
        let revision = member.revision(Read::Serializable).await?;
        let found = found(std::str::from_utf8(&value.value)?, value.mod_revision.0);
        anyhow::Ok(((call, now()), found.value.clone(), done(revision.0, false, Some(found))))
    };
    let (mut number, mut stale) = (0, None);
    until("the others acknowledge a write that demo-1 does not have", async || {
        number += 1;
        let (call, value) = (now(), format!("later {number}"));
        let reply = near.put(KEY, value.as_str()).await;
        let outcome = reply.as_ref().map_or_else(|_| unknown(), |revision| done(revision.0, false, None));
        calls.push(((call, now()), put(&value), outcome));
        if let Err(error) = reply {
            return Ok(Err(error.to_string()));
        }
        // It may get the write a moment later: between two elections it had no leader, with the partition on its way. So this very read counts.
        let (times, there, outcome) = read_at(far, Read::Serializable).await?;
        stale = Some((times, read(), outcome)).filter(|_| there != value);
        Ok(if stale.is_some() { Ok(()) } else { Err("demo-1 has it".to_owned()) })
    })
    .await?;
    let (times, _, outcome) = read_at(near, Read::Linearizable).await?;
    calls.push((times, read(), outcome));
    history(&calls).judge(None).context("without the stale read")?;
    calls.push(stale.context("it was read")?);
    let stale = history(&calls);
    println!("{}", refused("a stale read of a real etcd", &stale)?);

    // The command that replays it says the same, and draws it.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("stale.json");
    stale.write(&file)?;
    let output = Command::new(env!("CARGO_BIN_EXE_history")).arg(&file).output()?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && printed.contains("not linearizable"), "{printed}");
    ensure!(file.with_extension("html").exists(), "no drawing");
    history(&calls[..calls.len() - 1]).write(&file)?;
    let output = Command::new(env!("CARGO_BIN_EXE_history")).arg(&file).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
