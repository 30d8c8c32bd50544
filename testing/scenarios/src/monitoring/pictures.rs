//! Pictures of the dashboard: what the queries of its panels return, drawn, for those who read about it before they have it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use plotters::prelude::*;
use serde_json::Value;

use super::{Monitoring, dashboard, http, shipped};

/// The seconds between two points of a line.
const STEP: f64 = 2.0;

/// What a panel's variables are in these pictures. Times are those of a test, so that the interval is a short one.
const VARIABLES: [(&str, &str); 4] =
    [("namespace", "default"), ("etcd_cluster", "demo|full"), ("pod", ".*"), ("__rate_interval", "15s")];

/// More lines than these are read in a table.
const MOST_LINES: usize = 14;

/// Of a picture, and of the lines alone: beside them are their names.
const SIZE: (u32, u32) = (820, 240);
const PLOT: u32 = 640;

/// When something was done, and what, for the pictures.
#[derive(Clone, Debug)]
pub struct Mark {
    at: SystemTime,
    what: &'static str,
}

impl Mark {
    /// It is done now.
    pub fn now(what: &'static str) -> Self {
        Self { at: now(), what }
    }
}

/// The points of one line, by seconds since the first mark.
type Line = Vec<(f64, f64)>;

struct Panel {
    title: String,
    description: String,
    unit: String,
    lines: BTreeMap<String, Line>,
}

impl Monitoring {
    /// Writes a picture of each panel with lines into the directory, and a page with all of them beside it, under the same name. The
    /// pictures begin with the first mark.
    pub async fn draw(&self, directory: &Path, marks: &[Mark]) -> Result<()> {
        let first = marks.first().context("something was done")?.at;
        let shipped: Value = serde_json::from_str(&shipped("monitoring/dashboard.json")?)?;
        fs::create_dir_all(directory)?;
        let name =
            directory.file_name().and_then(|name| name.to_str()).context("the directory has a name")?;
        let mut page = head(marks, first)?;
        for panel in shipped["panels"].as_array().into_iter().flatten() {
            if panel["type"] == "row" {
                let _ = write!(page, "\n## {}\n", panel["title"].as_str().unwrap_or_default());
                continue;
            }
            let (is_table, may_be_empty) = (panel["type"] == "table", dashboard::may_be_empty(panel));
            let panel = self.panel(panel, first).await?;
            let is_table = is_table || panel.lines.len() > MOST_LINES;
            let empty = panel.lines.is_empty();
            ensure!(!empty || may_be_empty, "{} shows nothing", panel.title);
            let _ = write!(page, "\n### {}\n", panel.title);
            if !panel.description.is_empty() {
                let _ = write!(page, "\n{}\n", panel.description);
            }
            if empty {
                page.push_str("\nNothing, this time.\n");
                continue;
            }
            if is_table {
                page.push_str(&table(&panel));
                continue;
            }
            let file =
                format!("{}.svg", panel.title.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "-"));
            fs::write(directory.join(&file), picture(&panel, marks, first)?)?;
            let _ = write!(page, "\n![{}]({name}/{file})\n", panel.title);
        }
        fs::write(directory.with_extension("md"), page)?;
        Ok(())
    }

    async fn panel(&self, panel: &Value, first: SystemTime) -> Result<Panel> {
        let text =
            |pointer: &str| panel.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut lines = BTreeMap::new();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = dashboard::expression(target, &VARIABLES)?;
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            for series in self.range(&expression, first).await? {
                let mut name = named(legend, &series["metric"]);
                if panel["type"] == "table" {
                    name = format!("{}: {name}", named("{{namespace}}/{{name}}", &series["metric"]));
                }
                lines.insert(name, points(&series, first)?);
            }
        }
        let unit = text("/fieldConfig/defaults/unit");
        Ok(Panel { title: text("/title"), description: text("/description"), unit, lines })
    }

    /// The series of a query over the time since then.
    async fn range(&self, expression: &str, since: SystemTime) -> Result<Vec<Value>> {
        let (start, end) = (seconds(since)?, seconds(now())?);
        let query = http::encoded(expression);
        let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={STEP}");
        let answer: Value = serde_json::from_str(&http::get(self.prometheus, &path).await?)?;
        answer["data"]["result"].as_array().cloned().with_context(|| format!("{expression}: {answer}"))
    }
}

fn head(marks: &[Mark], first: SystemTime) -> Result<String> {
    let mut page = "# The dashboard\n\n\
        What [monitoring/dashboard.json](../monitoring/dashboard.json) shows, drawn from what a real Prometheus answers to the queries of its panels.\n\
        Grafana draws them in its own way. Four clusters of a playground live through what [alerts.md](alerts.md#see-it-yourself) describes. All that\n\
        Prometheus and the rules count in minutes or hours is 30 times shorter. The grey lines:\n\n\
        | | seconds | |\n|---|---|---|\n"
        .to_owned();
    for (number, mark) in marks.iter().enumerate() {
        let _ = writeln!(
            page,
            "| {number} | {:.0} | {} |",
            mark.at.duration_since(first)?.as_secs_f64(),
            mark.what
        );
    }
    page.push_str("\nDrawn again by `QUORATE_PICTURES=docs/dashboard cargo xtask test etcd --full -- -E 'test(alerts)'`.\n");
    Ok(page)
}

fn picture(panel: &Panel, marks: &[Mark], first: SystemTime) -> Result<String> {
    let mut svg = String::new();
    let drawn = draw(&mut svg, panel, marks, first);
    drawn.map_err(|error| anyhow!("{}: {error}", panel.title))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    panel: &Panel,
    marks: &[Mark],
    first: SystemTime,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || panel.lines.values().flatten();
    let end = points().map(|point| point.0).fold(1.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let lowest = points().map(|point| point.1).fold(0.0, f64::min);
    let above = if highest > 0.0 { highest * 1.1 } else { 1.0 };
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (plot, names) = area.split_horizontally(PLOT);
    let mut chart = ChartBuilder::on(&plot)
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, lowest..above)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|value| in_unit(*value, &panel.unit))
        .draw()?;
    for (number, mark) in marks.iter().enumerate() {
        let at = mark.at.duration_since(first)?.as_secs_f64();
        if at <= end {
            chart.draw_series(LineSeries::new([(at, lowest), (at, above)], RGBColor(150, 150, 150)))?;
            chart.draw_series([Text::new(number.to_string(), (at, above), ("sans-serif", 11))])?;
        }
    }
    for (number, (name, line)) in (0..).zip(&panel.lines) {
        let colour = Palette99::pick(usize::try_from(number)?).stroke_width(2);
        for piece in line.chunk_by(|one, next| next.0 - one.0 < 1.5 * STEP) {
            chart.draw_series(LineSeries::new(piece.iter().copied(), colour))?;
        }
        let at = 12 + 15 * number;
        names.draw(&PathElement::new([(0, at + 5), (14, at + 5)], colour))?;
        names.draw(&Text::new(name.as_str(), (20, at), ("sans-serif", 11)))?;
    }
    area.present()?;
    Ok(())
}

/// What each line ends with, in a row for each object that its name begins with.
fn table(panel: &Panel) -> String {
    let mut rows: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for (name, line) in &panel.lines {
        let (object, column) = name.split_once(": ").unwrap_or((name, "the last value"));
        let last = line.last().map(|point| in_unit(point.1, "short")).unwrap_or_default();
        rows.entry(object).or_default().insert(column, last);
    }
    let columns: BTreeSet<&str> = rows.values().flat_map(|row| row.keys().copied()).collect();
    let heading: String = columns.iter().map(|column| format!(" {column} |")).collect();
    let mut table = format!("\n| |{heading}\n|{}\n", "---|".repeat(columns.len() + 1));
    for (object, row) in rows {
        let cells: String = columns
            .iter()
            .map(|column| format!(" {} |", row.get(column).map_or("", String::as_str)))
            .collect();
        let _ = writeln!(table, "| {object} |{cells}");
    }
    table
}

/// A value as a reader says it, by the units that Grafana has.
fn in_unit(value: f64, unit: &str) -> String {
    const MIB: f64 = 1_048_576.0;
    match unit {
        "bytes" | "Bps" if value >= MIB => format!("{:.1} MiB", value / MIB),
        "bytes" | "Bps" => format!("{:.0} KiB", value / 1024.0),
        "s" if value < 1.0 => format!("{:.1} ms", value * 1000.0),
        "s" => format!("{value:.0} s"),
        "percentunit" => format!("{:.0} %", value * 100.0),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// A legend with the labels of its series.
fn named(legend: &str, labels: &Value) -> String {
    let mut name = legend.to_owned();
    for (label, value) in labels.as_object().into_iter().flatten() {
        name = name.replace(&format!("{{{{{label}}}}}"), value.as_str().unwrap_or_default());
    }
    if !name.is_empty() {
        return name;
    }
    let values = labels.as_object().into_iter().flatten().filter(|(label, _)| *label != "__name__");
    values.map(|(_, value)| value.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

fn points(series: &Value, first: SystemTime) -> Result<Line> {
    let begin = seconds(first)?;
    let mut line = Line::new();
    for value in series["values"].as_array().into_iter().flatten() {
        let at = value[0].as_f64().context("a time")? - begin;
        let number: f64 = value[1].as_str().context("a value")?.parse()?;
        if number.is_finite() {
            line.push((at, number));
        }
    }
    Ok(line)
}

fn seconds(at: SystemTime) -> Result<f64> {
    Ok(at.duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// By the clock of Prometheus, which is the machine's.
#[expect(clippy::disallowed_methods, reason = "the rule is about the planner")]
fn now() -> SystemTime {
    SystemTime::now()
}
