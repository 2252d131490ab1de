use super::{Watch, amount, estimation_engine};
use crate::args::Select;
use crate::console::note;
use crate::failure::{Failure, Outcome};
use crate::flags::FLAGS;
use crate::outputs::{self, Outputs, check_extension, spreadsheet_text};
use crate::report::{selection, shortened};
use crate::saved::Saved;
use fdime::data::{Column, PairTable, load_pairs};
use fdime::estimate::{
    Effort, SelectedFeature, Selection, SelectionEnd, SelectionPlan, format_p_value,
    select_features,
};
use fdime::{Nats, counted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The number of features that are chosen unless another is given.
const DEFAULT_K: usize = 10;

/// The results of the command.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The target.
    y: String,
    /// The features, and why the selection ended.
    #[serde(flatten)]
    selection: Selection,
    /// The columns to choose from.
    candidates: Vec<String>,
    /// The number of rows.
    rows: usize,
    /// Everything that determines the selection, except the data.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    plan: SelectionPlan,
    /// The duration in seconds.
    seconds: f64,
    /// The version of fdime.
    version: String,
}

pub fn run(args: &Select) -> Outcome {
    check_extension("--output", args.output.as_ref(), &["csv", "json"])?;
    check_extension("--svg", args.svg.as_ref(), &["svg"])?;
    let files = [("--output", &args.output), ("--svg", &args.svg)];
    let files: Vec<_> =
        files.iter().filter_map(|(name, path)| Some((*name, path.as_deref()?))).collect();
    outputs::check(&[("the table", &args.file)], &files)?;
    let start = Instant::now();
    let reading = args.reading.options();
    let table = load_pairs(&args.file, args.x.as_deref(), Some(&args.y), &reading)?;
    for text in &table.notes {
        note(&format!("note: {}", text.render(&FLAGS)));
    }
    let y = target(&table, &args.y)?;
    let mut estimate = args.estimation.plan(Effort::Quick);
    estimate.order = args.series.order();
    let k = args.k.unwrap_or(DEFAULT_K.min(table.x.len()));
    let plan = SelectionPlan { k, criterion: args.criterion, estimate };
    let engine = estimation_engine(&args.estimation.execution)?;
    let watch = Watch::new("selecting");
    let selection = select_features(&table.x, y, &plan, &*engine, &watch)?;
    drop(watch);
    let results = Results {
        y: y.name.clone(),
        selection,
        candidates: table.x.iter().map(|column| column.name.clone()).collect(),
        rows: y.len(),
        plan,
        seconds: start.elapsed().as_secs_f64(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let mut outputs = Outputs::default();
    outputs.write(args.output.as_ref(), |path| results.write_table(path));
    outputs.write_text(args.svg.as_ref(), || results.figure());
    outputs.finish(|| match args.json {
        true => Saved::new("select", &results).print(),
        false => results.print(args.bits),
    })
}

/// Returns the only column of y.
fn target<'a>(table: &'a PairTable, selector: &str) -> Result<&'a Column, Failure> {
    match &table.y[..] {
        [y] => Ok(y),
        columns => {
            let count = counted(columns.len(), "column");
            Err(Failure::Usage(format!("--y {selector}: this matches {count}; name exactly one")))
        }
    }
}

impl Results {
    /// Returns a chart of what each column adds and tells alone.
    pub fn figure(&self) -> String {
        let title = format!("Features for {}, by {}", self.y, self.plan.criterion);
        selection::render(&self.selection.features, &title)
    }

    /// Writes the chosen columns to a .csv file, or everything to a .json file.
    pub fn write_table(&self, path: &Path) -> Outcome {
        outputs::write_table(path, &Saved::new("select", self), |table| {
            self.selection.features.iter().try_for_each(|found| {
                let feature = spreadsheet_text(&found.feature);
                let partner = found.partner.as_deref().map(spreadsheet_text);
                table.serialize(SelectedFeature { feature, partner, ..found.clone() })
            })
        })
    }

    /// Prints the chosen columns.
    pub fn print(&self, bits: bool) -> Outcome {
        let Results { selection, plan, seconds, .. } = self;
        let mut out = std::io::stdout().lock();
        let (found, all) = (selection.features.len(), self.candidates.len());
        writeln!(
            out,
            "{found} of {} for {}, by {}; {}, {seconds:.1} s",
            counted(all, "feature"),
            shortened(&self.y, 18),
            plan.criterion,
            counted(self.rows, "row")
        )?;
        if let SelectionEnd::NothingLeft { features, p_adjusted, .. } = &selection.end {
            let names: Vec<String> = features.iter().map(|name| shortened(name, 18)).collect();
            let p = format_p_value(*p_adjusted);
            let best = names.join(" with ");
            writeln!(out, "no other feature has a significant gain (best: {best}, p = {p})")?;
        }
        if selection.features.is_empty() {
            return Ok(());
        }
        let unit = if bits { "bits" } else { "nats" };
        writeln!(
            out,
            "\n{:>4} {:18} {:>7} {:>15} {:>7} {:>10} {:>7}",
            "rank",
            "feature",
            format!("+{unit}"),
            "95% interval",
            "alone",
            "redundancy",
            "p adj"
        )?;
        for feature in &selection.features {
            let value = |nats: f64| amount(Nats(nats), bits);
            writeln!(
                out,
                "{:>4} {:18} {:7.3} {:>15} {:7.3} {:10.3} {:7.3}",
                feature.rank,
                shortened(&feature.feature, 18),
                value(feature.gain_nats),
                format!("{:.3} to {:.3}", value(feature.ci_low), value(feature.ci_high)),
                value(feature.alone_nats),
                value(feature.redundancy_nats),
                feature.p_adjusted
            )?;
        }
        for feature in selection.features.iter().filter(|feature| feature.partner.is_some()) {
            let partner = feature.partner.as_deref().unwrap_or_default();
            // Each pair once.
            if selection
                .features
                .iter()
                .any(|other| other.feature == partner && other.rank > feature.rank)
            {
                let (one, other) = (shortened(&feature.feature, 24), shortened(partner, 24));
                writeln!(out, "{one} and {other} were chosen as a pair")?;
            }
        }
        Ok(())
    }
}
