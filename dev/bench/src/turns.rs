//! Measures several methods in turns, so that the machine's other load affects all of them.

use std::time::Duration;

use anyhow::Result;

use super::Create;
use super::figures::Quartiles;

/// A ratio of two columns, and the largest that is good enough.
pub struct Ratio {
    pub of: usize,
    pub to: usize,
    pub goal: f64,
}

/// Measures with and without TLS, as asked for: one turn to warm up, then those that count.
pub async fn measure<const N: usize>(
    args: &Create,
    columns: [&str; N],
    ratios: &[Ratio],
    mut one: impl AsyncFnMut(bool, u32) -> Result<[Duration; N]>,
) -> Result<()> {
    for &tls in args.tls.modes() {
        let word = word(tls);
        println!("\n{}", row(&format!("TLS {word}"), &columns.map(str::to_owned)));
        let mut figures = [(); N].map(|()| Vec::new());
        for run in 0..=args.runs {
            let took = one(tls, run).await?.map(|took| took.as_secs_f64());
            let label = if run == 0 { "warm-up".to_owned() } else { format!("run {run}") };
            println!("{}", row(&label, &took.map(seconds)));
            if run > 0 {
                figures.iter_mut().zip(took).for_each(|(column, took)| column.push(took));
            }
        }
        let quartiles = figures.map(Quartiles::of);
        println!("{}", row("1st quartile", &quartiles.map(|one| seconds(one.first))));
        println!("{}", row("median", &quartiles.map(|one| seconds(one.median))));
        println!("{}", row("3rd quartile", &quartiles.map(|one| seconds(one.third))));
        // Of the medians, not the median of the turns' ratios: how long an election takes differs from one to the next
        // by more than anything that two neighbouring turns have in common.
        for Ratio { of, to, goal } in ratios {
            let ratio = quartiles[*of].median / quartiles[*to].median;
            let verdict = if ratio <= *goal { "met" } else { "MISSED" };
            println!(
                "TLS {word}: {} / {}: ratio {ratio:.2}; goal, {goal:.2} or less: {verdict}",
                columns[*of], columns[*to]
            );
        }
    }
    Ok(())
}

/// `on` or `off`.
pub fn word(tls: bool) -> &'static str {
    if tls { "on" } else { "off" }
}

fn seconds(figure: f64) -> String {
    format!("{figure:.2}")
}

fn row<const N: usize>(label: &str, cells: &[String; N]) -> String {
    cells.iter().fold(format!("{label:12}"), |row, cell| format!("{row}  {cell:>12}"))
}
