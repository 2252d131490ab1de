//! An f outside the table, given by Rust functions or by an expression in u.

use super::Row;
use super::expression::{Expression, Jet};
use crate::error::{Error, Result};
use crate::numerics::Real;
use std::{fmt, sync::Arc};

/// The longest part of a formula that an error message shows.
const MAX_CHARACTERS_SHOWN: usize = 200;

/// A generator f given by f, f' and f''; the rest follows:
/// a(l) = f'(e^l), b(l) = e^l f'(e^l) - f(e^l), a'(l) = e^l f''(e^l), b'(l) = e^{2l} f''(e^l).
///
/// f must be finite and convex, f'' >= 0, for e^-10 <= u <= e^10 (checked on a grid), with f'' > 0
/// somewhere. If f(1) is not 0, that constant is subtracted; [`notice`](Self::notice) reports it.
#[derive(Clone)]
pub struct CustomDivergence {
    formula: String,
    given: Given,
    /// f(1) as given.
    constant: f64,
}

/// f, f' and f'' as given.
#[derive(Clone)]
enum Given {
    Expression(Arc<Expression>),
    Functions(Arc<dyn Fn(f64) -> Jet + Send + Sync>),
}

impl Given {
    fn at(&self, u: f64) -> Jet {
        match self {
            Given::Expression(expression) => expression.evaluate(u),
            Given::Functions(functions) => functions(u),
        }
    }
}

impl CustomDivergence {
    /// Creates a divergence from an expression in `u`: numbers, + - * / ^, parentheses, the
    /// constants `e` and `PI`, and functions such as `ln`, `exp` and `sqrt`. Its derivatives are
    /// exact. Fails if the expression cannot be parsed or is not a convex function of u.
    pub fn from_expression(expression: &str) -> Result<Self> {
        if cfg!(not(feature = "custom-f")) {
            let reason = "this build reads no formulas; build it with the feature `custom-f`";
            return Err(invalid(expression, reason.into()));
        }
        let parsed = Expression::parse(expression)
            .map_err(|error| invalid(expression, error.to_string()))?;
        if !parsed.depends_on_u() {
            return Err(invalid(expression, "it does not depend on u".into()));
        }
        Self::checked(expression, Given::Expression(Arc::new(parsed)))
    }

    /// Creates a divergence from the functions f, f' and f''; `formula` is the name shown to users.
    /// Fails if f is not convex.
    pub fn from_functions(
        formula: &str,
        f: impl Fn(f64) -> f64 + Send + Sync + 'static,
        f1: impl Fn(f64) -> f64 + Send + Sync + 'static,
        f2: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Result<Self> {
        let jet = move |u| Jet { f: f(u), f1: f1(u), f2: f2(u) };
        Self::checked(formula, Given::Functions(Arc::new(jet)))
    }

    fn checked(formula: &str, given: Given) -> Result<Self> {
        check(formula, &given)?;
        Ok(CustomDivergence { formula: formula.to_string(), constant: given.at(1.0).f, given })
    }

    /// Returns the name used in plans, `f:EXPRESSION`; a divergence made of functions cannot be
    /// restored from its name.
    pub(super) fn name(&self) -> String {
        let kind = match self.given {
            Given::Expression(_) => "f",
            Given::Functions(_) => "functions",
        };
        format!("{kind}:{}", self.formula)
    }

    /// Returns the function `custom_divergence(l)` in the language of the GPU's kernels, which computes
    /// a, b and their slopes (custom.cuh), or `None` if f is given by Rust functions or is too long.
    #[cfg(feature = "cuda")]
    pub(crate) fn kernel_source(&self) -> Option<String> {
        let Given::Expression(expression) = &self.given else { return None };
        let constant = super::expression::kernel_number(self.constant);
        Some(format!(
            "{}__device__ inline float4 custom_divergence(float l) {{\n\
             double u = exp((double)l);\nreturn divergence_of(u, expression(u), {constant});\n}}\n",
            expression.kernel_source()?
        ))
    }

    /// Returns f as it was given.
    pub fn formula(&self) -> &str {
        &self.formula
    }

    /// Returns a message if a constant is subtracted from f, `None` if f(1) is 0.
    pub fn notice(&self) -> Option<String> {
        (self.constant.abs() > 1e-12)
            .then(|| format!("f(1) is {} instead of 0; that constant is subtracted", self.constant))
    }

    /// Returns u = e^l with f, f' and f'' at u, the constant subtracted.
    fn at<R: Real>(&self, l: R) -> (f64, Jet) {
        let u = l.to_f64().exp();
        let given = self.given.at(u);
        (u, Jet { f: given.f - self.constant, ..given })
    }
}

fn invalid(formula: &str, reason: String) -> Error {
    let mut expression: String = formula.chars().take(MAX_CHARACTERS_SHOWN).collect();
    if expression.len() < formula.len() {
        expression.push_str("...");
    }
    Error::InvalidDivergence { expression, reason }
}

/// Checks on a logarithmic grid that f is finite and convex, and that f'' > 0 somewhere.
fn check(formula: &str, given: &Given) -> Result<()> {
    let mut curved = false;
    let mut previous_slope = f64::NEG_INFINITY;
    for k in -200..=200 {
        let u = (f64::from(k) * 0.05).exp();
        let Jet { f, f1, f2 } = given.at(u);
        if !(f.is_finite() && f1.is_finite() && f2.is_finite()) {
            return Err(invalid(formula, format!("f, f' or f'' is not finite at u = {u:.2e}")));
        }
        // A sum of terms that cancel may leave f'' negative by rounding.
        if f2 < -1e-9 * (1.0 + f.abs() / (u * u)) {
            return Err(invalid(formula, format!("it is not convex: f''({u:.2e}) = {f2:.2e}")));
        }
        if f1 < previous_slope - 1e-9 * (1.0 + f1.abs()) {
            let reason = format!("it is not convex: f' decreases just below u = {u:.2e}");
            return Err(invalid(formula, reason));
        }
        previous_slope = f1;
        curved |= f2 > 1e-12;
    }
    if curved {
        Ok(())
    } else {
        Err(invalid(formula, "f'' is 0: a straight line does not measure dependence".into()))
    }
}

impl Row for CustomDivergence {
    fn f(&self, u: f64) -> f64 {
        self.given.at(u).f - self.constant
    }
    fn a<R: Real>(&self, l: R) -> R {
        self.a_and_slope(l).0
    }
    fn b<R: Real>(&self, l: R) -> R {
        self.b_and_slope(l).0
    }
    fn a_slope<R: Real>(&self, l: R) -> R {
        self.a_and_slope(l).1
    }
    fn b_slope<R: Real>(&self, l: R) -> R {
        self.b_and_slope(l).1
    }
    fn a_and_slope<R: Real>(&self, l: R) -> (R, R) {
        let (u, Jet { f1, f2, .. }) = self.at(l);
        (R::from_f64(f1), R::from_f64(u * f2))
    }
    fn b_and_slope<R: Real>(&self, l: R) -> (R, R) {
        let (u, Jet { f, f1, f2 }) = self.at(l);
        (R::from_f64(u * f1 - f), R::from_f64(u * u * f2))
    }
}

impl PartialEq for CustomDivergence {
    fn eq(&self, other: &Self) -> bool {
        let are_expressions =
            matches!((&self.given, &other.given), (Given::Expression(_), Given::Expression(_)));
        are_expressions && self.formula == other.formula
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
                assert!((left - right).abs() < 1e-9, "at {l}: {left} and {right}");
            }
        }
    }

    #[test]
    fn a_constant_is_subtracted_and_reported() {
        let custom = CustomDivergence::from_expression("u*ln(u) + 3").unwrap();
        assert_eq!(custom.f(1.0), 0.0);
        assert!(custom.notice().unwrap().contains("f(1) is 3"));
        assert_eq!(CustomDivergence::from_expression("u*ln(u)").unwrap().notice(), None);
    }

    #[test]
    fn invalid_generators_are_refused_with_the_reason() {
        for (expression, reason) in [
            ("ln(u)", "not convex"),
            ("-u^2", "not convex"),
            ("u*-u^2", "not convex"),
            ("u^2^3", "in parentheses"),
            ("abs(u-1)-abs(u-2)", "f' decreases"),
            ("u - 1", "straight line"),
            ("u*ln(v)", "only variable is u"),
            ("3", "does not depend on u"),
            ("1/(u-2)^2 + u*0", "not convex"),
            ("u*ln(u", "')' is missing"),
            ("ln(u-1)^2", "not finite"),
            ("floor(u)+u^2", "not finite"),
        ] {
            let error = CustomDivergence::from_expression(expression).unwrap_err().to_string();
            assert!(error.contains(reason), "{expression}: {error}");
            assert!(error.contains("does not generate an f-divergence"), "{error}");
        }
    }

    #[test]
    fn errors_about_long_expressions_stay_short() {
        let error = CustomDivergence::from_expression(&"u+".repeat(20_000)).unwrap_err();
        assert!(error.to_string().len() < 400, "{error}");
    }
}
