//! An f that the table does not hold: from Rust functions, or from a string.

use super::Row;
use crate::error::{Error, Result};
use crate::numerics::Real;
use exmex::{Differentiate, Express, FlatEx};
use std::{fmt, sync::Arc};

type Function = Arc<dyn Fn(f64) -> f64 + Send + Sync>;

/// A generator f given by f, f' and f''; the rest follows:
/// a(l) = f'(e^l), b(l) = e^l f'(e^l) - f(e^l), a'(l) = e^l f''(e^l), b'(l) = e^{2l} f''(e^l).
///
/// f must be finite and convex, f'' >= 0, for e^-10 <= u <= e^10 (checked on a grid), and curved
/// somewhere. If f(1) is not 0 that constant is subtracted, and [`notice`](Self::notice) says so.
#[derive(Clone)]
pub struct CustomDivergence {
    formula: String,
    /// Whether `formula` is an expression that can be read back.
    readable: bool,
    f: Function,
    f1: Function,
    f2: Function,
    constant: f64,
}

impl CustomDivergence {
    /// From an expression in `u`: numbers, + - * / ^, parentheses, and functions such as `ln`,
    /// `exp` and `sqrt`. It is differentiated symbolically.
    pub fn from_expression(expression: &str) -> Result<Self> {
        let fail = |reason: String| Error::InvalidDivergence {
            expression: expression.to_string(),
            reason,
        };
        if cfg!(not(feature = "custom-f")) {
            let reason = "this build reads no formulas; build it with the feature `custom-f`";
            return Err(fail(reason.into()));
        }
        let usual = with_usual_minus(expression).map_err(fail)?;
        let f: FlatEx<f64> = exmex::parse(&usual).map_err(|e| fail(e.to_string()))?;
        match f.var_names() {
            [name] if name == "u" => {}
            [] => return Err(fail("it does not depend on u".into())),
            names => {
                return Err(fail(format!("the only variable is u, found {}", names.join(", "))));
            }
        }
        let f1 = f.clone().partial(0).map_err(|e| fail(format!("no derivative: {e}")))?;
        let f2 = f1.clone().partial(0).map_err(|e| fail(format!("no second derivative: {e}")))?;
        let custom = Self::from_functions(expression, evaluator(f), evaluator(f1), evaluator(f2))?;
        Ok(CustomDivergence { readable: true, ..custom })
    }

    /// From f, f' and f'' as functions; `formula` is the name that shows them to people.
    pub fn from_functions(
        formula: &str,
        f: impl Fn(f64) -> f64 + Send + Sync + 'static,
        f1: impl Fn(f64) -> f64 + Send + Sync + 'static,
        f2: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Result<Self> {
        let constant = f(1.0);
        let custom = CustomDivergence {
            formula: formula.to_string(),
            readable: false,
            f: Arc::new(f),
            f1: Arc::new(f1),
            f2: Arc::new(f2),
            constant,
        };
        custom.check().map_err(|reason| Error::InvalidDivergence {
            expression: formula.to_string(),
            reason,
        })?;
        Ok(custom)
    }

    /// The name under which a plan holds it. What is made of functions cannot be read back from it.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", if self.readable { "f" } else { "functions" }, self.formula)
    }

    /// f as it was given.
    pub fn formula(&self) -> &str {
        &self.formula
    }

    /// What was changed about f, if anything.
    pub fn notice(&self) -> Option<String> {
        (self.constant.abs() > 1e-12)
            .then(|| format!("f(1) is {} instead of 0; that constant is subtracted", self.constant))
    }

    /// Finite and convex on a logarithmic grid, and not a straight line.
    fn check(&self) -> std::result::Result<(), String> {
        let mut curved = false;
        let mut slope_before = f64::NEG_INFINITY;
        for k in -200..=200 {
            let u = (f64::from(k) * 0.05).exp();
            let (f, f1, f2) = ((self.f)(u), (self.f1)(u), (self.f2)(u));
            if !(f.is_finite() && f1.is_finite() && f2.is_finite()) {
                return Err(format!("f, f' or f'' is not finite at u = {u:.2e}"));
            }
            // A sum of terms that cancel may leave a curvature of rounding size below zero.
            if f2 < -1e-9 * (1.0 + f.abs() / (u * u)) {
                return Err(format!("it is not convex: f''({u:.2e}) = {f2:.2e}"));
            }
            if f1 < slope_before - 1e-9 * (1.0 + f1.abs()) {
                return Err(format!("it is not convex: its slope falls just below u = {u:.2e}"));
            }
            slope_before = f1;
            curved |= f2 > 1e-12;
        }
        if curved { Ok(()) } else { Err("it is a straight line, so it measures nothing".into()) }
    }
}

/// exmex reads -u^2 as (-u)^2. A minus at the start of a term becomes 0-, which everybody reads
/// alike; after another operator the term it belongs to must be in parentheses.
/// u^v^w would be (u^v)^w, where others read u^(v^w): it needs parentheses too.
fn with_usual_minus(expression: &str) -> std::result::Result<String, String> {
    let (mut usual, mut before) = (String::new(), '(');
    // The last operator within each parenthesis that is open.
    let mut operators = vec![' '];
    for character in expression.chars() {
        match (character, operators.last_mut()) {
            ('(', _) => operators.push(' '),
            (')', _) => drop(operators.pop()),
            ('^', Some('^')) => return Err("put one of two powers in parentheses".into()),
            ('+' | '-' | '*' | '/' | '^' | ',', Some(last)) => *last = character,
            _ => {}
        }
        if character == '-' {
            match before {
                '(' | ',' => usual.push('0'),
                '*' | '/' | '+' | '-' => {
                    return Err(format!("put what follows '{before}-' in parentheses"));
                }
                _ => {}
            }
        }
        usual.push(character);
        if !character.is_whitespace() {
            before = character;
        }
    }
    Ok(usual)
}

fn evaluator(expression: FlatEx<f64>) -> impl Fn(f64) -> f64 + Send + Sync {
    // A derivative may have lost the variable (f = u^2, f'' = 2).
    let takes_u = !expression.var_names().is_empty();
    move |u| {
        let arguments: &[f64] = if takes_u { &[u] } else { &[] };
        expression.eval(arguments).unwrap_or(f64::NAN)
    }
}

impl Row for CustomDivergence {
    fn f(&self, u: f64) -> f64 {
        (self.f)(u) - self.constant
    }
    fn a<R: Real>(&self, l: R) -> R {
        R::of((self.f1)(l.to_f64().exp()))
    }
    fn b<R: Real>(&self, l: R) -> R {
        let u = l.to_f64().exp();
        R::of(u * (self.f1)(u) - self.f(u))
    }
    fn a_slope<R: Real>(&self, l: R) -> R {
        let u = l.to_f64().exp();
        R::of(u * (self.f2)(u))
    }
    fn b_slope<R: Real>(&self, l: R) -> R {
        let u = l.to_f64().exp();
        R::of(u * u * (self.f2)(u))
    }
}

impl PartialEq for CustomDivergence {
    fn eq(&self, other: &Self) -> bool {
        self.readable && other.readable && self.formula == other.formula
    }
}

impl fmt::Debug for CustomDivergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomDivergence({})", self.formula)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Divergence;

    #[test]
    fn an_expression_equals_its_row() {
        let custom = Divergence::from_expression("u*ln(u)-(u+1)*ln(u+1)+ln(4)").unwrap();
        for l in [-6.0, -1.0, 0.0, 0.3, 5.0] {
            let row = Divergence::Gan;
            for (left, right) in [
                (custom.a(l), row.a(l)),
                (custom.b(l), row.b(l)),
                (custom.a_slope(l), row.a_slope(l)),
                (custom.b_slope(l), row.b_slope(l)),
            ] {
                assert!((left - right).abs() < 1e-9, "at {l}: {left} against {right}");
            }
        }
    }

    #[test]
    fn a_constant_is_subtracted_and_said() {
        let custom = CustomDivergence::from_expression("u*ln(u) + 3").unwrap();
        assert_eq!(custom.f(1.0), 0.0);
        assert!(custom.notice().unwrap().contains("f(1) is 3"));
        assert_eq!(CustomDivergence::from_expression("u*ln(u)").unwrap().notice(), None);
    }

    #[test]
    fn what_is_no_generator_is_refused_with_the_reason() {
        for (expression, reason) in [
            ("ln(u)", "not convex"),
            ("-u^2", "not convex"),
            ("u*-u^2", "parentheses"),
            ("u^2^3", "in parentheses"),
            ("u - 1", "straight line"),
            ("u*ln(v)", "only variable is u"),
            ("3", "does not depend on u"),
            ("1/(u-2)^2 + u*0", "not convex"),
            ("u*ln(u", "does not generate"),
            ("ln(u-1)^2", "not finite"),
        ] {
            let error = CustomDivergence::from_expression(expression).unwrap_err().to_string();
            assert!(error.contains(reason), "{expression}: {error}");
        }
    }
}
