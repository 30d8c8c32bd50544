//! What the world of schedules found, each with the departures that showed it, at every moment.

use crate::explore::{explore, keep_last};
use crate::world::{Departure, Forged, Setup, WhoseClock};

#[track_caller]
fn nothing_is_violated(setup: &Setup, departures: u32, may: fn(&Departure) -> bool) {
    if let Err(found) = explore(setup, departures, may, 200_000) {
        panic!("{}", found.story(setup));
    }
}

#[test]
fn o04_a_backup_in_the_store_of_another_person_pushes_out_none_of_a_schedule() {
    nothing_is_violated(&keep_last(), 1, |what| matches!(what, Departure::Forge(Forged::Elsewhere)));
}

#[test]
fn o11_a_backup_of_clocks_that_were_ahead_pushes_out_none_that_is_taken_later() {
    nothing_is_violated(&keep_last(), 1, |what| matches!(what, Departure::Clock(WhoseClock::Both, 1..)));
}

#[test]
fn o11_what_a_clock_that_was_ahead_put_off_is_done_once_it_is_right() {
    nothing_is_violated(&keep_last(), 2, |what| {
        matches!(
            what,
            Departure::Clock(WhoseClock::Operator, 1..) | Departure::Ends(_) | Departure::Credentials(_)
        )
    });
}

#[test]
fn o15_what_somebody_keeps_or_suspends_in_the_middle_of_a_pass_stays() {
    nothing_is_violated(&keep_last(), 1, |what| matches!(what, Departure::Keep(_) | Departure::Suspend));
}
