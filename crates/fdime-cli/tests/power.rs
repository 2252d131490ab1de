//! `power`: what it prints, writes and refuses.

mod common;

use common::{Folder, json, refusal, stdout};

/// A study that takes a second.
const QUICK: &str = "--estimator copula --tables 60 --permutations 99";

#[test]
fn a_search_prints_the_number_of_rows_and_draws_the_figure() {
    let folder = Folder::new();
    let figure = folder.path("power.svg");
    let text = stdout(&format!("power --mi rho=0.4 {QUICK} --svg {}", figure.display()));
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.starts_with("about ") && text.contains(" rows   95% interval "), "{text}");
    for part in ["0.087 nats between 1 + 1 columns (gaussian)", "probability of 0.8", "rejected"] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = std::fs::read_to_string(figure).unwrap();
    for part in ["Power of the test", "Estimates (medians)", "power 0.8 with "] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn json_has_the_plan_and_every_size() {
    let result =
        json(&format!("power --dim 3+2 --pairs 1 --mi 0.05 --rows 400,60 {QUICK} --bits --json"));
    assert_eq!(result["columns"], serde_json::json!([3, 2]));
    assert_eq!(result["plan"]["noise_columns"], serde_json::json!([2, 1]));
    assert!(result["needed"].is_null());
    let sizes = result["sizes"].as_array().unwrap();
    let rows: Vec<u64> = sizes.iter().map(|size| size["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [60, 400]);
    let power = |index: usize| sizes[index]["power"].as_f64().unwrap();
    assert!(power(0) < power(1) && power(1) > 0.9);
    assert!((result["mi_nats"].as_f64().unwrap() - 0.05).abs() < 1e-9);
}

#[test]
fn bad_input_is_refused_in_the_words_of_the_command_line() {
    for (request, expected) in [
        ("--mi much", "--mi 'much': write a number"),
        ("--mi 0.1 --dim 5x5", "--dim '5x5': write the numbers of columns"),
        ("--mi 0.1 --power 1", "--power 1: must be above alpha"),
        ("--mi 0.1 --alpha 0", "--alpha 0: must be above 0"),
        ("--mi 0", "--mi 0: there is no dependence to detect; use --rows"),
        ("--mi -1", "--mi -1: mutual information must be finite and not negative"),
        ("--mi df=3", "--mi df=3 cannot be used with scenario gaussian"),
        ("--mi 0.1 --rows 5", "--rows 5: must be at least 20"),
        ("--mi 0.1 --rows 100 --tables 0", "--tables 0: must be at least 1"),
        ("--mi 0.1 --tables 5", "--tables 5: must be at least 40 for a search"),
        ("--mi 0.1 --estimator ksg", "--estimator ksg cannot be used with a study of power"),
        (
            "--mi 0.1 --pairs 3 --dim 2+2",
            "--dim 2+2: must be at least 3+3, the columns that share information",
        ),
        ("--mi 0.1 --scenario gausian", "did you mean 'gaussian'"),
        ("--mi 0.1 --svg power.png", "--svg power.png: the name must end in .svg"),
    ] {
        let message = refusal(&format!("power {request}"));
        assert!(message.contains(expected), "{request}: {message}");
    }
}
