//! `capacity`: what it prints, writes and refuses.

mod common;

use common::{Folder, json, refusal, shipped, stdout};
use fdime::scenario::ChannelScenario;

const QUICK: &str = "--effort quick --permutations 99";

/// A table of a bit that is flipped in one of ten rows, a rare level, numbers and noise.
fn table(folder: &Folder) -> String {
    let mut text = String::from("sent,received,rare,number,same\n");
    for k in 0..600 {
        // Low-discrepancy points: evenly spread, and the same on every machine.
        let u = (f64::from(k) * 0.618_033_988_75).fract();
        let v = (f64::from(k) * 0.754_877_666_25).fract();
        let sent = u8::from(u > 0.7);
        let received = if v < 0.1 { 1 - sent } else { sent };
        let rare = if k < 7 { "seldom" } else { "often" };
        text += &format!("{sent},{received},{rare},{},7\n", u + v);
    }
    folder.write("channel.csv", text)
}

/// The example of docs/CAPACITY.md. Two readings with a deviation of 1 are as good as their mean,
/// whose deviation is 1/sqrt(2).
#[test]
fn the_example_of_the_documentation_contains_the_truth() {
    let command = "capacity examples/doses.csv --input dose --output 'r*' --effort quick --bits";
    let page = include_str!("../../../docs/CAPACITY.md");
    assert!(page.contains(&format!("fdime {command} --svg")), "{command}");
    let doses = shipped("doses.csv");
    let result = json(&format!("capacity {doses} --input dose --output r* {QUICK} --json"));
    let means = [0.0, 1.0, 2.0, 4.0, 8.0].map(|dose: f64| 6.0 * dose / (dose + 2.0));
    let truth = ChannelScenario::gaussian(&means, 0.5f64.sqrt()).unwrap().optimum();
    let number = |key: &str| result[key].as_f64().unwrap();
    assert!(number("ci_low") < truth.information && truth.information < number("ci_high"));
    assert!((number("capacity_nats") / truth.information - 1.0).abs() < 0.1);
    assert!(number("mi_nats") < number("capacity_nats"));
    let written =
        format!("exact capacity of this channel is {:.3} bits", truth.information / 2f64.ln());
    assert!(page.contains(&written), "{written}");
    let levels = result["levels"].as_array().unwrap();
    let names: Vec<&str> = levels.iter().map(|level| level["level"].as_str().unwrap()).collect();
    assert_eq!(names, ["0", "1", "2", "4", "8"]);
    let total: f64 = levels.iter().map(|level| level["optimal_share"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9);
    assert_eq!(result["discriminability_bits"].as_array().unwrap().len(), 5);
    assert_eq!((&result["input"][0], &result["output"][1]), (&"dose".into(), &"r2".into()));
    assert_eq!((&result["n_rows"], &result["p_value"]), (&2000.into(), &0.01.into()));
    assert!(result["verdict"]["reliability"].is_string() && result["plan"].is_object());
}

#[test]
fn the_summary_fits_a_terminal_and_the_figure_is_written() {
    let folder = Folder::new();
    let (table, figure) = (table(&folder), folder.path("out.svg"));
    let request = format!("capacity {table} --input sent --output received --permutations 99");
    let text = stdout(&format!("{request} --bits --svg {}", figure.display()));
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.starts_with("capacity = ") && text.contains(" bits   95% interval "), "{text}");
    for part in ["observed   95% interval", "level", "told apart: 0 and 1 (", "input (x): sent"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = std::fs::read_to_string(figure).unwrap();
    for part in ["Input distribution", "Information of each level", "observed share", "capacity: "]
    {
        assert!(svg.contains(part), "{part}");
    }
    assert_eq!(svg.matches("class=\"none\"").count(), 2, "the diagonal");
    let nats = stdout(&request);
    assert!(nats.contains(" nats   95% interval "), "{nats}");
}

#[test]
fn bad_input_is_refused_in_the_words_of_the_command_line() {
    let folder = Folder::new();
    let table = table(&folder);
    for (request, expected) in [
        ("--input number --output received", "--input: column 'number' takes too many different"),
        ("--input number --output received", "name it in --discrete if its values are levels"),
        ("--input same --output received", "column 'same' has the same value in every row"),
        (
            "--input rare --output received",
            "--input: 1 of 2 levels have fewer than 20 rows, such as",
        ),
        ("--input rare --output received", "'seldom' with 7; merge levels"),
        ("--input nope --output received", "--input nope"),
        ("--input sent --output sent", "--output sent"),
        ("--input sent --output received --estimator ksg", "--estimator ksg cannot be used with"),
        ("--input sent --output received --folds 1", "--folds 1: must be between 2 and 20"),
        ("--input sent --output received --svg out.png", "the name must end in .svg"),
        ("--output received", "--input <COLUMNS>"),
    ] {
        let text = refusal(&format!("capacity {table} {request}"));
        assert!(text.contains(expected), "{request}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 1, "nothing is written");
}
