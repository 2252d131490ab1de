//! Every flag, defined once: help, completions, man pages and parsing are derived from here.

use crate::commands::bench::{Configuration, configuration};
use crate::values::{self, CommaSeparated, OneOf, Part, named};
use clap::{Args, Parser, Subcommand};
use fdime::data::{ConstantColumns, Delimiter, MissingRows};
use fdime::estimate::{ChainChoice, Criterion, Effort, Method, RowOrder};
use fdime::train::LearningRateSchedule;
use fdime::{
    Activation, AnyEstimator, CriticKind, DeviceChoice, Level, Link, Pairing, Precision, Readout,
};
use std::path::PathBuf;
use std::sync::LazyLock;

/// The version, the commit where it is known, and the compiled features.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = match env!("FDIME_COMMIT") {
        "" => String::new(),
        commit => format!(" ({commit})"),
    };
    let features = match env!("FDIME_FEATURES") {
        "" => "none",
        features => features,
    };
    format!("{}{commit}\nfeatures: {features}", env!("CARGO_PKG_VERSION"))
});

/// Mutual information estimation by f-divergences and data derangements
#[derive(Parser)]
#[command(name = "fdime", version, long_version = LONG_VERSION.as_str(), max_term_width = 80)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Print only results and errors: no progress and no messages
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
}

#[derive(Subcommand)]
pub enum Command {
    /// Estimate the mutual information between columns of a table
    #[command(after_help = "Examples:\n  \
        fdime estimate data.parquet --x 'sensor_*' --y label,temp\n  \
        fdime estimate pairs.csv --report report.html --bits\n  \
        fdime estimate genes.tsv.gz --x 2-9 --y phenotype --discrete phenotype\n  \
        fdime estimate series.csv --x price --y volume --blocks\n  \
        fdime estimate data.csv --x dose --y response --given 'age,weight'\n  \
        fdime estimate --x-file embeddings.npy --y-file labels.npy --discrete y1\n  \
        zcat pairs.csv.gz | fdime estimate - --y target --json")]
    Estimate(Box<Estimate>),
    /// Score the rows of another table with critics saved by 'estimate --save'
    #[command(after_help = "Examples:\n  \
        fdime estimate old.csv --x 'x*' --y y --save model.safetensors\n  \
        fdime apply model.safetensors new.csv --pointwise scores.csv")]
    Apply(Apply),
    /// Mutual information between all pairs of columns, or of groups of columns
    #[command(after_help = "Examples:\n  \
        fdime matrix data.csv -o mi.csv --svg mi.svg\n  \
        fdime matrix data.parquet --columns 'gene_*' -o mi.json --estimator copula\n  \
        fdime matrix data.csv --group 'left=l_*' --group 'right=r_*' -o mi.csv\n  \
        fdime matrix data.csv --y target -o ranking.csv\n  \
        fdime matrix data.parquet --rows 'tf_*' --columns 'gene_*' -o mi.csv\n  \
        fdime matrix data.csv -o mi.csv --resume\n  \
        CUDA_VISIBLE_DEVICES=1 fdime matrix data.csv -o mi.csv --part 2/2")]
    Matrix(Box<Matrix>),
    /// Choose the columns that are most informative about a target, without redundant ones
    #[command(after_help = "Examples:\n  \
        fdime select data.csv --y target -k 10\n  \
        fdime select data.csv --y price --criterion jmi -o chosen.csv --svg chosen.svg\n  \
        fdime select genes.parquet --x 'gene_*' --y phenotype --discrete phenotype\n  \
        fdime select data.csv --y target --estimator copula --json")]
    Select(Box<Select>),
    /// Mutual information between series at lags: x now and y some rows later
    #[command(after_help = "Examples:\n  \
        fdime lag series.csv --x price --y volume --lags -20..20 --svg lags.svg\n  \
        fdime lag series.csv --x 'station_*' --y rain --lags 0..48 -o lags.csv\n  \
        fdime lag series.csv --x price --y volume --time date\n  \
        fdime lag trials.parquet --x stimulus --y 'unit_*' --group trial -o lags.json\n  \
        fdime lag series.csv --x 'station_*' --y rain -o lags.csv --resume")]
    Lag(Box<Lag>),
    /// Transfer entropy: information that the past of one series adds about the next value of another
    #[command(after_help = "Examples:\n  \
        fdime transfer series.csv --from x --to y --history 3 --lags 1..5\n  \
        fdime transfer series.csv --from 'sensor_*' --to load --time hour\n  \
        fdime transfer trials.csv --from x --to y --group trial --json\n  \
        fdime transfer series.csv --columns 'r*' -o network.csv --svg network.svg\n  \
        fdime transfer series.csv -o network.csv --graphml network.graphml --resume")]
    Transfer(Box<Transfer>),
    /// Estimate the capacity of a channel with a discrete input: the largest mutual information of
    /// input and output over all input distributions
    #[command(after_help = "Examples:\n  \
        fdime capacity data.csv --input dose --output 'r*'\n  \
        fdime capacity examples/doses.csv --input dose --bits --svg doses.svg\n  \
        fdime capacity spikes.parquet --input stimulus --output 'count_*' --json")]
    Capacity(Box<Capacity>),
    /// Simulate how many rows a study needs to detect a dependence
    #[command(after_help = "Examples:\n  \
        fdime power --mi 0.1\n  \
        fdime power --dim 5+5 --mi 0.1 --power 0.9 --svg power.svg\n  \
        fdime power --dim 20+1 --pairs 1 --mi rho=0.3\n  \
        fdime power --dim 5+5 --mi 0.1 --rows 200,500,1000\n  \
        fdime power --dim 2+2 --mi 0 --rows 300        # false positives\n  \
        fdime power --scenario student --dim 2 --mi df=3 --json\n\n\
        The tables are drawn from a distribution with known mutual information, and each\n\
        is estimated as by 'fdime estimate --effort quick'.")]
    Power(Box<Power>),
    /// Make reports, figures and tables from the JSON of an earlier run, without running it again
    #[command(after_help = "Examples:\n  \
        fdime estimate data.csv --y target --json > run.json\n  \
        fdime report run.json\n  \
        fdime report run.json --html report.html --open\n  \
        fdime report mi.json --svg mi.svg -o mi.csv\n  \
        fdime report network.json --graphml network.graphml --bits\n\n\
        It reads what estimate, matrix, select, lag, transfer, capacity and power write.")]
    Report(Report),
    /// Run a suite of tasks with known information
    #[command(after_help = "Examples:\n  \
        fdime suite bmi\n  \
        fdime suite bmi --tasks 'student*' --effort max\n  \
        fdime suite bmi2 --tasks 'concentric*'\n  \
        fdime suite conditional --tasks '*null*' -n 2000\n  \
        fdime suite transfer --effort quick\n  \
        fdime suite bmi -n 2000 --estimator ksg --json > ksg.json")]
    Suite(Suite),
    /// List estimators, divergences, critics, pairings, scenarios and their options
    #[command(after_help = "Examples:\n  fdime list\n  fdime list scenarios")]
    List(List),
    /// Draw samples from a scenario or a task with known information
    #[command(after_help = "Examples:\n  \
        fdime sample gaussian --dim 5 --level 2 -n 1000 -o pairs.csv\n  \
        fdime sample student --dim 2 --level df=3 -n 10000 -o pairs.npz\n  \
        fdime sample swiss-roll --level 0.8 -n 500 -o roll.npy\n  \
        fdime sample ccmi-linear-1-1x1x20 -n 5000 -o triples.csv\n  \
        fdime sample one-way -n 5000 -o series.csv")]
    Sample(Sample),
    /// Train estimators on a staircase of known mutual information and measure bias and variance
    #[command(after_help = "Examples:\n  \
        fdime staircase --scenario gaussian --dim 5 --estimator kl-dime,gan-dime\n  \
        fdime staircase --scenario student --levels df=3,2,1 --critic joint\n  \
        fdime staircase --estimator 'f:u*ln(u)' --levels 1,2 --iterations 1000\n  \
        fdime staircase --pairing permutation --batch 128 --svg capped.svg\n  \
        fdime staircase --critic joint --runs 64 --device cuda --log runs.jsonl\n  \
        fdime staircase --chain 4 --lr-schedule warm-up-and-cosine --svg terms.svg\n  \
        fdime staircase --plan examples/quickstart.json --json > again.json")]
    Staircase(Box<Staircase>),
    /// Reproduce the paper's experiments: raw data, comparison with the paper's tables, figures,
    /// claims
    #[command(after_help = "Examples:\n  \
        fdime reproduce list\n  \
        fdime reproduce derangement --quick\n  \
        fdime reproduce errors-d20-n64 --device cuda\n  \
        fdime reproduce all --quick --images data\n  \
        fdime reproduce all --no-run\n  \
        fdime reproduce my-recipe.toml\n\n\
        Finished runs are kept in FOLDER/runs.jsonl, one line each, and not repeated:\n\
        after an interruption, the same command continues. The exit code is 1 if a\n\
        claim does not hold.")]
    Reproduce(Reproduce),
    /// Print the JSON schema of what a command prints with --json
    #[command(after_help = "Examples:\n  \
        fdime schema estimate > estimate.schema.json\n  \
        fdime schema power")]
    Schema(Schema),
    /// List the devices that runs can be executed on
    #[command(after_help = "Examples:\n  fdime devices\n  fdime devices --json")]
    Devices(Devices),
    /// Measure the time of a training step
    #[command(after_help = "Examples:\n  \
        fdime bench\n  \
        fdime bench deranged-d20-n1000 deranged-d20-n100000 --seconds 5\n  \
        fdime bench joint-d5-n64 --threads 1 --json")]
    Bench(Bench),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  \
        fdime completions bash > ~/.local/share/bash-completion/completions/fdime\n  \
        fdime completions zsh > ~/.zfunc/_fdime")]
    Completions(Completions),
    /// Print the manual pages of all commands or of one
    #[command(after_help = "Examples:\n  \
        fdime man | man -l -\n  \
        fdime man estimate > fdime-estimate.1")]
    Man(Man),
}

#[derive(Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Args)]
pub struct Man {
    /// Print only the page of this command
    pub command: Option<String>,
}

#[derive(Args)]
pub struct List {
    /// Show only this section, e.g. estimators
    pub section: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Reproduce {
    /// Names of recipes, 'all', 'list', or files with your own recipes
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Scale the recipes down to minutes on two cores
    #[arg(long)]
    pub quick: bool,
    /// Run nothing; report on finished runs
    #[arg(long)]
    pub no_run: bool,
    /// Where to write [default: results, or results-quick with --quick]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// The folder that contains mnist and fashion-mnist with IDX files; without it, recipes on
    /// images are skipped
    #[arg(long, value_name = "FOLDER", env = "FDIME_IMAGES")]
    pub images: Option<PathBuf>,
    #[command(flatten)]
    pub execution: Execution,
    /// Also show the numbers behind claims that hold
    #[arg(long)]
    pub verbose: bool,
}

#[derive(Args)]
pub struct Devices {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Sample {
    /// The scenario, e.g. gaussian, cubic, student, gaussian+half-cube; or a task with x, y and z
    /// or with two series (see `fdime list triples` and `fdime list series`)
    pub scenario: String,
    /// The dimension of x and of y [default: 1]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub dim: Option<usize>,
    /// The dependence: MI in nats, or rho=R, eps=E, df=V, ... (see `fdime list scenarios`)
    /// [default: 1]
    #[arg(long, allow_hyphen_values = true, value_parser = values::level)]
    pub level: Option<Level>,
    /// The number of rows
    #[arg(short = 'n', long = "rows", default_value_t = 1000, value_parser = values::whole::<usize>)]
    pub rows: usize,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 0, value_parser = values::whole::<u64>)]
    pub seed: u64,
    /// Where to write: a .csv, .npy (columns x, y and z) or .npz (arrays x, y and z) file
    #[arg(short, long)]
    pub output: PathBuf,
}

#[derive(Args)]
pub struct Staircase {
    /// Where samples come from [default: gaussian]
    #[arg(long)]
    pub scenario: Option<String>,
    /// The estimators, separated by commas [default: kl-dime,gan-dime,hd-dime]
    #[arg(long, value_parser = values::estimators)]
    pub estimator: Option<CommaSeparated<AnyEstimator>>,
    /// The critic [default: deranged]
    #[arg(long, value_parser = OneOf::named(CriticKind::ALL, CriticKind::name))]
    pub critic: Option<CriticKind>,
    /// The pairing [default: the critic's]
    #[arg(long, value_parser = OneOf::named(Pairing::ALL, Pairing::name))]
    pub pairing: Option<Pairing>,
    /// The dimension of x and of y [default: 20, swiss-roll 1]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub dim: Option<usize>,
    /// Samples in a training step [default: 64]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub batch: Option<usize>,
    /// The steps of the staircase: MI in nats, or rho=..., eps=..., df=... [default: the paper's]
    #[arg(long, allow_hyphen_values = true, value_parser = values::levels)]
    pub levels: Option<CommaSeparated<Level>>,
    /// Iterations at each level [default: 4000]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub iterations: Option<usize>,
    /// Hidden widths, or a preset: paper (256,256), paper-code (256,256,256) [default: paper]
    #[arg(long, value_parser = values::hidden)]
    pub hidden: Option<CommaSeparated<usize>>,
    /// Outputs of each network of the separable critic [default: 32]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub embedding: Option<usize>,
    /// The activation [default: relu]
    #[arg(long, value_parser = OneOf::named(Activation::ALL, Activation::name))]
    pub activation: Option<Activation>,
    /// The link from score to log ratio [default: the estimator's]
    #[arg(long, value_parser = OneOf::named(Link::ALL, Link::name))]
    pub link: Option<Link>,
    /// How the estimate is computed from scores: plain, nwj, dv, clipped-TAU [default: the
    /// estimator's]
    #[arg(long, value_parser = named::<Readout>)]
    pub readout: Option<Readout>,
    /// Adam's learning rate [default: 0.0005]
    #[arg(long, allow_hyphen_values = true)]
    pub lr: Option<f64>,
    /// How the learning rate changes over a run [default: constant]
    #[arg(long, value_name = "SCHEDULE",
        value_parser = OneOf::named(LearningRateSchedule::ALL, LearningRateSchedule::name))]
    pub lr_schedule: Option<LearningRateSchedule>,
    /// Split y into B blocks of columns and sum the terms of the chain rule, which can find more
    /// information than a single training; a run is then 2B - 1 trainings
    #[arg(long, value_name = "B", value_parser = values::whole::<usize>)]
    pub chain: Option<usize>,
    /// The seed of the first run [default: 0]
    #[arg(long, value_parser = values::whole::<u64>)]
    pub seed: Option<u64>,
    /// Runs of each estimator, with consecutive seeds [default: 1]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub runs: Option<usize>,
    /// Take the settings from a file: a plan, or the JSON of an earlier run; flags override it
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Final iterations of each level, from which bias and variance are computed [default: 1000]
    #[arg(long, value_parser = values::whole::<usize>)]
    pub last: Option<usize>,
    /// Append each finished run to this file, as one line of JSON; runs that are already in it are
    /// not repeated. On a GPU, runs that are trained together finish together
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub execution: Execution,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the staircase plot to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Args)]
pub struct Bench {
    /// Configurations, CRITIC-dDIM-nBATCH or CRITIC-dDIM-nBATCH-PAIRING [default: a standard set]
    #[arg(value_parser = configuration)]
    pub configurations: Vec<Configuration>,
    /// The estimator
    #[arg(long, default_value = "gan-dime", value_parser = named::<AnyEstimator>)]
    pub estimator: AnyEstimator,
    /// Hidden widths, or a preset: paper, paper-code
    #[arg(long, default_value = "paper", value_parser = values::hidden)]
    pub hidden: CommaSeparated<usize>,
    /// How long to measure each configuration
    #[arg(long, default_value = "2", value_parser = values::seconds)]
    pub seconds: f64,
    #[command(flatten)]
    pub execution: Execution,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What computes.
#[derive(Args)]
pub struct Execution {
    /// Where to run; auto is cuda if there is a GPU. Devices draw different random numbers, so
    /// their results differ as those of different seeds do
    #[arg(long, default_value = "auto", value_parser = OneOf::named(DeviceChoice::ALL, DeviceChoice::name))]
    pub device: DeviceChoice,
    /// The precision of the GPU: tf32, fp32 or bf16 [default: tf32]
    #[arg(long, value_parser = named::<Precision>)]
    pub precision: Option<Precision>,
    /// Threads on the CPU; 0 means one for each core. It does not change the results
    #[arg(long, default_value_t = 0, value_parser = values::whole::<usize>)]
    pub threads: usize,
}

/// Help of `--estimator` where a test is needed, which ksg does not have.
const WITH_TEST: &str = "auto, copula, cca, or any estimator listed by 'fdime list' but ksg";

/// Help of `--estimator` where log ratios of categories are needed.
const OF_CRITICS: &str = "auto, or any estimator listed by 'fdime list' that trains critics";

/// How to estimate from finite data.
#[derive(Args)]
pub struct Estimation {
    /// auto, copula, cca, ksg, or any estimator listed by 'fdime list'
    #[arg(long, default_value = "auto", value_parser = named::<Method>)]
    pub estimator: Method,
    /// How much computation to spend [default: default, or quick if there are many estimates]
    #[arg(long, value_parser = OneOf::named(Effort::ALL, Effort::name))]
    pub effort: Option<Effort>,
    /// Folds of cross-fitting
    #[arg(long, default_value_t = 5, value_parser = values::whole::<usize>)]
    pub folds: usize,
    /// Permutations of the test of independence; more are used if p-values are adjusted for many tests
    #[arg(long, default_value_t = 999, value_parser = values::whole::<usize>)]
    pub permutations: usize,
    /// The seed of folds, networks and permutations
    #[arg(long, default_value_t = 0, value_parser = values::whole::<u64>)]
    pub seed: u64,
    #[command(flatten)]
    pub execution: Execution,
}

/// Whether large estimates use the chain rule.
#[derive(Args)]
pub struct Chaining {
    /// Split a side into blocks of columns and add up what each block adds: off, auto, or the number
    /// of blocks; auto does so for estimates above a third of ln n, and off is the default with
    /// --effort quick [default: auto]
    #[arg(
        long,
        value_name = "BLOCKS",
        value_parser = named::<ChainChoice>
    )]
    pub chain: Option<ChainChoice>,
}

/// The notation of text tables.
#[derive(Args)]
pub struct Notation {
    /// Words that mean a missing value, besides NA, null, #N/A and the like
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Reading"
    )]
    pub na: Vec<String>,
    /// The decimal point, . or , [default: detected]
    #[arg(long, value_name = "POINT", value_parser = values::decimal, help_heading = "Reading")]
    pub decimal: Option<char>,
    /// What separates fields: a character, tab or space [default: detected]
    #[arg(long, value_name = "CHARACTER", value_parser = values::delimiter, help_heading = "Reading")]
    pub delimiter: Option<Delimiter>,
    /// Whether the first line has the names of the columns [default: detected]
    #[arg(long, value_name = "yes|no", value_parser = values::yes_or_no(), help_heading = "Reading")]
    pub header: Option<bool>,
    /// Skip lines that start with this character
    #[arg(long, value_name = "CHARACTER", value_parser = values::comment, help_heading = "Reading")]
    pub comment: Option<u8>,
    /// Skip this many lines before the header
    #[arg(long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Reading", value_parser = values::whole::<usize>)]
    pub skip_lines: usize,
    /// The memory that the table may use, e.g. 8GB [default: most of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = values::memory, help_heading = "Reading")]
    pub max_memory: Option<u64>,
}

/// How to read a table.
#[derive(Args)]
pub struct Reading {
    /// Numeric columns whose values are categories
    #[arg(long, value_name = "COLUMNS", help_heading = "Reading")]
    pub discrete: Option<String>,
    /// Columns that must be numbers: text in them is an error
    #[arg(long, value_name = "COLUMNS", help_heading = "Reading")]
    pub numeric: Option<String>,
    /// What to do with rows that have missing values
    #[arg(long, value_name = "ACTION", default_value = "drop", value_parser = values::missing(), help_heading = "Reading")]
    pub missing: MissingRows,
    /// What to do with constant columns that were named; others are always left out
    #[arg(long, value_name = "ACTION", default_value = "error", value_parser = values::constant(), help_heading = "Reading")]
    pub constant: ConstantColumns,
    /// Use this many rows, drawn at random
    #[arg(long, value_name = "N", help_heading = "Reading", value_parser = values::whole::<usize>)]
    pub sample_rows: Option<usize>,
    #[command(flatten)]
    pub notation: Notation,
}

#[derive(Args)]
pub struct Estimate {
    /// The table: CSV, TSV, JSON lines, Excel, Parquet, Arrow IPC, NPY, NPZ, also compressed with
    /// gzip or zstd; - is standard input
    #[arg(required_unless_present = "x_file")]
    pub file: Option<PathBuf>,
    /// Columns of x: names, globs, positions, ranges, as in 'a,sensor_*,3,5-8,!id'
    /// [default: all but y]
    #[arg(short, long, value_name = "COLUMNS")]
    pub x: Option<String>,
    /// Columns of y [default: all but x]
    #[arg(short, long, value_name = "COLUMNS")]
    pub y: Option<String>,
    /// Columns to hold fixed: estimate I(x; y | z), what y adds about x beyond these columns
    #[arg(long, value_name = "COLUMNS", conflicts_with = "x_file")]
    pub given: Option<String>,
    /// The table of x, if x and y are in two files with the same rows
    #[arg(long, value_name = "FILE", requires = "y_file", conflicts_with = "file")]
    pub x_file: Option<PathBuf>,
    /// The table of y
    #[arg(long, value_name = "FILE", requires = "x_file")]
    pub y_file: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub estimation: Estimation,
    #[command(flatten)]
    pub series: Series,
    #[command(flatten)]
    pub chain: Chaining,
    /// Print bits instead of nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a summary
    #[arg(long)]
    pub json: bool,
    /// Write the log ratio of every row of the table to this CSV file
    #[arg(long, value_name = "FILE")]
    pub pointwise: Option<PathBuf>,
    /// Write a report to this HTML file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Show the report in the browser; --report names its file
    #[arg(long)]
    pub open: bool,
    /// Save the trained critics to this file, for 'fdime apply'
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Whether the order of the rows matters.
#[derive(Args)]
pub struct Series {
    /// Rows are a time series: contiguous folds with GAP rows left out between them, and circular
    /// shifts for the test [default gap: twice the autocorrelation time]
    #[arg(long, value_name = "GAP", num_args = 0..=1, conflicts_with = "sample_rows", value_parser = values::gap)]
    pub blocks: Option<Option<usize>>,
}

/// The places of rows in time.
#[derive(Args)]
pub struct Timing {
    /// Column of times on a grid, which may have gaps; lags then count grid steps instead of rows
    #[arg(long, value_name = "COLUMN")]
    pub time: Option<String>,
    /// Column of recordings, such as trials; rows of different recordings are never compared
    #[arg(long, value_name = "COLUMN")]
    pub group: Option<String>,
    /// Rows to leave out between the folds of an estimate [default: twice the autocorrelation
    /// time]
    #[arg(long, value_name = "GAP", value_parser = values::gap)]
    pub blocks: Option<usize>,
}

impl Timing {
    /// Returns how the folds of estimates respect the order of the rows.
    pub fn order(&self) -> RowOrder {
        self.blocks.map_or(RowOrder::AutomaticSeries, |gap| RowOrder::Series { gap })
    }
}

#[derive(Args)]
pub struct Apply {
    /// The file written by 'fdime estimate --save'
    pub model: PathBuf,
    /// The table, with the columns that the critics were trained on; - is standard input
    pub file: PathBuf,
    /// What to do with rows that have missing values
    #[arg(long, value_name = "ACTION", default_value = "drop", value_parser = values::missing(), help_heading = "Reading")]
    pub missing: MissingRows,
    #[command(flatten)]
    pub notation: Notation,
    #[command(flatten)]
    pub execution: Execution,
    /// Write the log ratio of every row of the table to this CSV file
    #[arg(long, value_name = "FILE")]
    pub pointwise: Option<PathBuf>,
    /// Print bits instead of nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Matrix {
    /// The table; - is standard input
    pub file: PathBuf,
    /// The columns to compare: with each other, or with those of --rows [default: all]
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<String>,
    /// Compare the columns only with these: the rows of the matrix
    #[arg(long, value_name = "COLUMNS", conflicts_with_all = ["groups", "y"])]
    pub rows: Option<String>,
    /// A group of columns to compare as one, NAME=COLUMNS; give at least two
    #[arg(long = "group", value_name = "NAME=COLUMNS", conflicts_with = "columns")]
    pub groups: Vec<String>,
    /// Compare all columns with this column or group only, and rank them
    #[arg(long, value_name = "NAME")]
    pub y: Option<String>,
    /// Where to write the pairs: a .csv or .json file
    #[arg(short, long)]
    pub output: PathBuf,
    /// Write a heat map to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Continue an unfinished run
    #[arg(long)]
    pub resume: bool,
    /// Estimate only a part of the pairs, 1/4 for the first of four: one process for each GPU or
    /// machine, all with the same output, which the last one to finish writes
    #[arg(long, value_name = "K/N", value_parser = Part::parse)]
    pub part: Option<Part>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub estimation: Estimation,
    #[command(flatten)]
    pub series: Series,
    /// Print bits instead of nats; files are in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(mut_arg("estimator", |arg| arg.help(WITH_TEST)))]
pub struct Select {
    /// The table; - is standard input
    pub file: PathBuf,
    /// The target column
    #[arg(long, value_name = "COLUMN")]
    pub y: String,
    /// The columns to choose from [default: all but y]
    #[arg(long, value_name = "COLUMNS")]
    pub x: Option<String>,
    /// The maximum number of columns [default: 10]; the choice ends earlier if no other column adds
    /// significantly
    #[arg(short, value_name = "K", value_parser = values::whole::<usize>)]
    pub k: Option<usize>,
    /// The criterion for the next column f, with s for those chosen before: forward, I(f; y | all s);
    /// cmim, the smallest I(f; y | s); jmi, the mean I(f, s; y); mrmr, I(f; y) minus the mean I(f; s)
    #[arg(long, default_value = "forward", value_parser = OneOf::named(Criterion::ALL, Criterion::name))]
    pub criterion: Criterion,
    /// Write the chosen columns to this .csv or .json file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a chart to this file: what each column adds, and its information alone
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub estimation: Estimation,
    #[command(flatten)]
    pub series: Series,
    /// Print bits instead of nats; files are in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(mut_arg("sample_rows", |arg| arg.hide(true)))]
pub struct Lag {
    /// The table, with rows in the order of time; - is standard input
    pub file: PathBuf,
    /// Series x; each column is compared with each of y
    #[arg(long, value_name = "COLUMNS")]
    pub x: String,
    /// Series y, taken LAG rows after x
    #[arg(long, value_name = "COLUMNS")]
    pub y: String,
    /// The lags: a range, or a list such as 0,1,7; positive if y is later than x
    #[arg(long, default_value = "-10..10", allow_hyphen_values = true, value_parser = values::lags)]
    pub lags: CommaSeparated<i64>,
    /// Columns to hold fixed, at the times of x and of y: estimate I(x; y | z), the dependence that they
    /// do not explain
    #[arg(long, value_name = "COLUMNS")]
    pub given: Option<String>,
    #[command(flatten)]
    pub timing: Timing,
    /// Where to write all lags: a .csv or .json file
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Write a figure to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Continue an unfinished run
    #[arg(long, requires = "output")]
    pub resume: bool,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub estimation: Estimation,
    /// Print bits instead of nats; files are in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(mut_arg("estimator", |arg| arg.help(WITH_TEST)))]
#[command(mut_arg("sample_rows", |arg| arg.hide(true)))]
pub struct Transfer {
    /// The table, with a row for each step in time; - is standard input
    pub file: PathBuf,
    /// The source series; the opposite directions are also estimated
    #[arg(long, value_name = "COLUMNS", requires = "to")]
    pub from: Option<String>,
    /// The target series, whose next value may depend on the past of the source
    #[arg(long, value_name = "COLUMNS", requires = "from")]
    pub to: Option<String>,
    /// A network: all directions between these columns [default: all, without --from and --to]
    #[arg(long, value_name = "COLUMNS", conflicts_with_all = ["from", "to"])]
    pub columns: Option<String>,
    /// How many past values of the target are held fixed [default: chosen by cross-validation]
    #[arg(long, value_name = "N", value_parser = values::whole::<usize>)]
    pub history: Option<usize>,
    /// The lags of the source, in steps before the target: a range such as 1..5, or a list
    /// [default: 1 to the history]
    #[arg(long, value_name = "LAGS", allow_hyphen_values = true, value_parser = values::lags)]
    pub lags: Option<CommaSeparated<i64>>,
    #[command(flatten)]
    pub timing: Timing,
    /// Where to write all directions: a .csv or .json file
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Write the network to this GraphML file
    #[arg(long, value_name = "FILE")]
    pub graphml: Option<PathBuf>,
    /// Write a map of all directions to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Continue an unfinished run
    #[arg(long, requires = "output")]
    pub resume: bool,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub estimation: Estimation,
    /// Print bits instead of nats; files are in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(mut_arg("estimator", |arg| arg.help(OF_CRITICS)))]
pub struct Capacity {
    /// The table; - is standard input
    pub file: PathBuf,
    /// Columns of the input, whose combinations of values are its levels: names, globs, positions,
    /// ranges, as in 'dose,drug_*,3'
    #[arg(long, value_name = "COLUMNS")]
    pub input: String,
    /// Columns of the output [default: all but the input]
    #[arg(long, value_name = "COLUMNS")]
    pub output: Option<String>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub estimation: Estimation,
    #[command(flatten)]
    pub series: Series,
    /// Print and draw bits instead of nats; JSON is in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a summary
    #[arg(long)]
    pub json: bool,
    /// Write a figure to this file: the optimal input distribution, and which levels can be distinguished
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Args)]
#[command(mut_arg("estimator", |arg| arg.help(WITH_TEST)))]
pub struct Power {
    /// The mutual information to detect: nats, or rho=R, df=V, ... (see `fdime list scenarios`)
    #[arg(long, value_name = "NATS", allow_hyphen_values = true, value_parser = values::mi)]
    pub mi: Level,
    /// The numbers of columns of x and of y, as in 5+5
    #[arg(long, default_value = "1+1", value_parser = values::dims)]
    pub dim: (usize, usize),
    /// The number of pairs of columns that share the information equally; all others are noise
    /// [default: the smaller of the two dimensions]
    #[arg(long, value_name = "K", value_parser = values::whole::<usize>)]
    pub pairs: Option<usize>,
    /// The required power: the command searches for the number of rows that achieves it
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true, conflicts_with = "rows")]
    pub power: f64,
    /// Compute the power with these numbers of rows instead, as in 200,500,1000
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub rows: Option<Vec<usize>>,
    /// The level of the test: it rejects independence if p is at most this
    #[arg(long, default_value_t = 0.05)]
    pub alpha: f64,
    /// The number of simulated tables, in total or for each of --rows
    #[arg(long, default_value_t = 400, value_parser = values::whole::<usize>)]
    pub tables: usize,
    /// The distribution of the tables
    #[arg(long, default_value = "gaussian")]
    pub scenario: String,
    #[command(flatten)]
    pub estimation: Estimation,
    /// Write a figure to this file: power and intervals against the number of rows
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print and draw bits instead of nats; JSON is in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Report {
    /// A file that a command wrote with --json or -o FILE.json; - is standard input
    pub file: PathBuf,
    /// Write the report of an estimate to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Show that report in the browser
    #[arg(long)]
    pub open: bool,
    /// Write the figure of any other command to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the table of matrix, select, lag or transfer to this .csv or .json file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the network of transfer to this file
    #[arg(long, value_name = "FILE")]
    pub graphml: Option<PathBuf>,
    /// Print bits instead of nats; tables are in nats
    #[arg(long)]
    pub bits: bool,
}

#[derive(Args)]
pub struct Schema {
    /// The command
    #[arg(value_parser = crate::saved::SCHEMAS.map(|(command, _)| command))]
    pub command: String,
}

#[derive(Args)]
pub struct Suite {
    /// The suite: bmi, 40 tasks of Czyz et al. (2023); bmi2, 13 mixtures of Czyz et al. (2025);
    /// conditional, triples x, y, z with known I(x; y | z); transfer, pairs of series with known
    /// transfer entropy
    pub suite: String,
    /// Samples of each task
    #[arg(short = 'n', long = "rows", default_value_t = 10_000, value_parser = values::whole::<usize>)]
    pub rows: usize,
    /// Only the tasks with these names; * and ? stand for any characters
    #[arg(long, value_name = "GLOB")]
    pub tasks: Option<String>,
    #[command(flatten)]
    pub estimation: Estimation,
    #[command(flatten)]
    pub chain: Chaining,
    /// Print bits instead of nats; JSON is in nats
    #[arg(long)]
    pub bits: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}
