"""Estimates the mutual information of one table with one method, and prints a line of JSON.

    python bench/peers/estimate.py 'benchmark-mi MINE' TABLE.npz

Needs the method's package (see METHODS). The clock runs around the estimate alone, without imports and without
reading the table; the compilation of a package's own functions counts, since its user waits for it too. Whatever
differs from a package's defaults is in this file.
"""

import argparse
import importlib.metadata
import json
import math
import resource
import sys
import time

# Each of these functions imports its package and returns an estimator of x, y and perhaps z, in nats.


def fdime(estimator):
    import fdime

    def estimate(x, y, z=None):
        settings = {"estimator": estimator, "threads": 1, "progress": False}
        return fdime.mutual_information(x, y, given=z, **settings).mi

    return estimate


def benchmark_mi(name, **settings):
    from bmi import estimators

    return lambda x, y: getattr(estimators, name)(**settings).estimate(x, y)


def scikit_learn():
    from sklearn.feature_selection import mutual_info_regression

    return lambda x, y: mutual_info_regression(x, y[:, 0], random_state=0)[0]


def npeet():
    from npeet_plus import mi

    return lambda x, y, z=None: mi(x, y, z, base=math.e)  # its default is bits


def infomeasure():
    import infomeasure

    def estimate(x, y, z=None):
        if z is None:
            return infomeasure.mutual_information(x, y, approach="ksg")
        return infomeasure.conditional_mutual_information(x, y, cond=z, approach="ksg")

    return estimate


def cmi_knn(**settings):
    import numpy as np
    from tigramite.independence_tests.cmiknn import CMIknn

    def estimate(x, y, z):
        roles = np.repeat([0, 1, 2], [x.shape[1], y.shape[1], z.shape[1]])
        array = np.hstack([x, y, z]).T
        return CMIknn(workers=1, **settings).get_dependence_measure(array, roles)

    return estimate


#: The package of each method and its function; the quick ones first. `verbose` is a progress bar.
PAIRS = {
    "fdime copula": ("fdime", lambda: fdime("copula")),
    "fdime ksg": ("fdime", lambda: fdime("ksg")),
    "benchmark-mi CCA": ("benchmark-mi", lambda: benchmark_mi("CCAMutualInformationEstimator")),
    "benchmark-mi KSG": ("benchmark-mi", lambda: benchmark_mi("KSGEnsembleFirstEstimator")),
    "scikit-learn KSG": ("scikit-learn", scikit_learn),
    "NPEET KSG": ("npeet-plus", npeet),
    "infomeasure KSG": ("infomeasure", infomeasure),
    "fdime auto": ("fdime", lambda: fdime("auto")),
    "benchmark-mi MINE": ("benchmark-mi", lambda: benchmark_mi("MINEEstimator", verbose=False)),
    "benchmark-mi InfoNCE": ("benchmark-mi", lambda: benchmark_mi("InfoNCEEstimator", verbose=False)),
}
TRIPLES = {
    "tigramite CMIknn": ("tigramite", cmi_knn),
    "tigramite CMIknn, knn=5": ("tigramite", lambda: cmi_knn(knn=5)),
    "NPEET KSG": ("npeet-plus", npeet),
    "infomeasure KSG": ("infomeasure", infomeasure),
    "fdime auto": ("fdime", lambda: fdime("auto")),
}
METHODS = PAIRS | TRIPLES


def main():
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("table")
    args = parser.parse_args()
    package, make = METHODS[args.method]
    estimate = make()
    table = np.load(args.table)
    columns = [table[name] for name in ("x", "y", "z") if name in table]
    seconds, cpu_seconds = time.perf_counter(), time.process_time()
    value = float(estimate(*columns))
    seconds, cpu_seconds = time.perf_counter() - seconds, time.process_time() - cpu_seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = {
        "estimate": value if math.isfinite(value) else None,
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu_seconds, 4),
        "peak_mb": round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1),
        "version": importlib.metadata.version(package),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
