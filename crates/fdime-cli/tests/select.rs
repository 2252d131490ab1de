//! `fdime select`.

mod common;

use common::{Folder, fdime, json, refusal, stdout};

/// Writes y = a + 0.7 b + noise, with a copy of a and two columns of noise.
fn sums(folder: &Folder) -> String {
    let mut text = String::from("copy,a,b,n1,n2,y\n");
    for k in 0..500 {
        // Low-discrepancy points: evenly spread, and the same on every machine.
        let spread = |step: f64| (f64::from(k) * step).fract() - 0.5;
        let (a, b) = (spread(0.618_033_988_75), spread(0.754_877_666_25));
        let (copy, y) = (a + 0.3 * spread(0.569_840_290_99), a + 0.7 * b);
        let y = y + 0.4 * spread(0.819_172_513_39);
        let (n1, n2) = (spread(0.671_043_606_7), spread(0.856_674_883_85));
        text += &format!("{copy},{a},{b},{n1},{n2},{y}\n");
    }
    folder.write("sums.csv", text)
}

#[test]
fn features_are_chosen_and_written() {
    let folder = Folder::new();
    let table = sums(&folder);
    let (csv, svg) = (folder.path("chosen.csv"), folder.path("chosen.svg"));
    let text = stdout(&format!(
        "select {table} --y y --estimator copula -o {} --svg {} --quiet",
        csv.display(),
        svg.display()
    ));
    assert!(text.starts_with("2 of 5 features for y, by forward; 500 rows"), "{text}");
    assert!(text.contains("no other feature has a significant gain (best: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let rows: Vec<String> =
        std::fs::read_to_string(csv).unwrap().lines().map(str::to_string).collect();
    assert!(rows[0].starts_with("rank,feature,column,gain_nats,ci_low,ci_high,alone_nats"));
    assert!(rows[1].starts_with("1,a,1,") && rows[2].starts_with("2,b,2,"), "{rows:?}");
    assert!(std::fs::read_to_string(svg).unwrap().contains("a, gain: "));
}

#[test]
fn every_criterion_and_unit_is_available() {
    let folder = Folder::new();
    let table = sums(&folder);
    for criterion in ["forward", "cmim", "jmi", "mrmr"] {
        let answer = json(&format!(
            "select {table} --y y --x a,b,n* -k 1 --criterion {criterion} --estimator copula --json"
        ));
        assert_eq!(answer["features"][0]["feature"], "a", "{criterion}");
        assert_eq!(answer["end"]["reason"], "complete");
        assert_eq!(answer["plan"]["criterion"], criterion);
    }
    let bits = stdout(&format!("select {table} --y y -k 1 --estimator copula --bits"));
    assert!(bits.contains("+bits"), "{bits}");
}

#[test]
fn impossible_selections_are_refused_in_the_words_of_the_command_line() {
    let folder = Folder::new();
    let table = sums(&folder);
    for (arguments, part) in [
        ("--y y -k 0", "-k 0: must be between 1 and 5, the number of features"),
        ("--y y -k 6", "-k 6: must be between 1 and 5, the number of features"),
        ("--y y --criterion gain", "--criterion gain: write forward, cmim, jmi or mrmr"),
        ("--y y --x a,y", "'y'"),
        ("--y y --x a", "there is one feature; a selection needs at least two"),
        ("--y n*", "--y n*: this matches 2 columns; name exactly one"),
        ("--y z", "'z'"),
        ("--y y --estimator ksg", "--estimator ksg cannot be used with a selection of features"),
        ("--y y -o chosen.txt", "--output chosen.txt: the name must end in .csv or .json"),
    ] {
        let message = refusal(&format!("select {table} {arguments}"));
        assert!(message.contains(part) && message.starts_with("error: "), "{message}");
    }
    assert_eq!(fdime(&format!("select {table}")).status.code(), Some(2), "--y is required");
}
