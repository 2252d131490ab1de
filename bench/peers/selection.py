"""Compares the selection of features with scikit-learn's by the accuracy of a classifier.

    python bench/peers/selection.py --json bench/results/DATE-selection.json

Needs the wheel and scikit-learn. Each row is a data set of scikit-learn; the numbers are the mean accuracy
of five folds. In each fold, features are chosen on the training rows alone, and a classifier (logistic
regression on standardised features, or boosted trees) is trained on them and scored on the other rows.
SelectKBest ranks features by `mutual_info_classif`; all selectors have the same k, but fdime stops when no
feature adds significantly, so the mean number of features that it chose is listed too.

`digits` is the first 600 images and the 20 pixels that vary most. `made up` has two features that tell the
class only together (exclusive or of signs), one that tells it alone, two noisy copies of that, and five
columns of noise.
"""

import argparse
import json
import platform
import time

import fdime
import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import SelectKBest, mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDS = 5


def made_up(rows=1000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10))
    X[:, 1:3] = X[:, [0]] + 0.5 * rng.normal(size=(rows, 2))
    exclusive_or = np.where((X[:, 3] > 0) != (X[:, 4] > 0), 1.0, -1.0)
    return X, (X[:, 0] + 1.2 * exclusive_or + 0.3 * rng.normal(size=rows) > 0).astype(int)


def digits():
    X, y = load_digits(return_X_y=True)
    varying = np.sort(np.argsort(X.var(axis=0))[-20:])
    return X[:600, varying], y[:600]


DATA = {
    "made up": made_up,
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": digits,
}
CLASSIFIERS = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "trees": lambda: HistGradientBoostingClassifier(random_state=0),
}


def selectors(k, criteria):
    score = lambda X, y: mutual_info_classif(X, y, random_state=0)
    yield "SelectKBest", SelectKBest(score, k=k)
    for criterion in criteria:
        yield f"fdime {criterion}", fdime.MutualInformationSelector(k, criterion=criterion)


def compare(name, k, criteria):
    """Returns the accuracy of each selector and classifier, and the features chosen."""
    X, y = DATA[name]()
    rows = []
    for selector_name, selector in selectors(k, criteria):
        start, chosen, accuracy = time.perf_counter(), [], {c: [] for c in CLASSIFIERS}
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
            support = np.flatnonzero(selector.fit(X[train], y[train]).get_support())
            chosen.append(support.tolist())
            for classifier, make in CLASSIFIERS.items():
                if len(support):
                    fitted = make().fit(X[train][:, support], y[train])
                    accuracy[classifier].append(fitted.score(X[test][:, support], y[test]))
                else:
                    accuracy[classifier].append(float(np.bincount(y[test]).max() / len(test)))
        record = {
            "data": name,
            "k": k,
            "selector": selector_name,
            "chosen": chosen,
            "mean_chosen": float(np.mean([len(c) for c in chosen])),
            **{c: float(np.mean(a)) for c, a in accuracy.items()},
            "seconds": time.perf_counter() - start,
        }
        numbers = "  ".join(f"{c} {record[c]:.3f}" for c in CLASSIFIERS)
        print(f"{name:14} k={k} {selector_name:14} {record['mean_chosen']:4.1f} chosen  {numbers}"
              f"  {record['seconds']:.0f} s", flush=True)
        rows.append(record)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA), help="the data sets, separated by commas")
    parser.add_argument("--criteria", default="forward,jmi,mrmr")
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--json", help="where to write all results")
    args = parser.parse_args()
    results = []
    for name in args.data.split(","):
        results += compare(name, args.k, args.criteria.split(","))
    if args.json:
        versions = {"fdime": fdime.__version__, "scikit-learn": sklearn.__version__}
        with open(args.json, "w") as file:
            json.dump({"results": results, "versions": versions, "python": platform.python_version()},
                      file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
