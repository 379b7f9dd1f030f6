"""Distributions."""

from __future__ import annotations

from . import (
    bernoulli,
    beta,
    binomial,
    categorical,
    cauchy,
    chi2,
    constraint,
    dirichlet,
    distribution,
    divergence,
    exp_family,
    exponential,
    fishersnedecor,
    gamma,
    geometric,
    gumbel,
    half_cauchy,
    half_normal,
    independent,
    laplace,
    multinomial,
    multivariate_normal,
    negative_binomial,
    normal,
    one_hot_categorical,
    pareto,
    poisson,
    relaxed_bernoulli,
    relaxed_one_hot_categorical,
    studentT,
    transformed_distribution,
    uniform,
    utils,
    weibull,
)
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .chi2 import Chi2
from .constraint import (
    Boolean,
    Cat,
    Constraint,
    GreaterThan,
    GreaterThanEq,
    HalfOpenInterval,
    IntegerGreaterThan,
    IntegerGreaterThanEq,
    IntegerHalfOpenInterval,
    IntegerInterval,
    IntegerLessThan,
    IntegerLessThanEq,
    IntegerOpenInterval,
    Interval,
    LessThan,
    LessThanEq,
    LowerCholesky,
    LowerTriangular,
    NonNegative,
    NonNegativeInteger,
    OpenInterval,
    Positive,
    PositiveDefinite,
    PositiveInteger,
    Real,
    Simplex,
    Stack,
    UnitInterval,
)
from .dirichlet import Dirichlet
from .distribution import Distribution
from .divergence import empirical_kl, kl_divergence, register_kl
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .fishersnedecor import FisherSnedecor
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_cauchy import HalfCauchy
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .multinomial import Multinomial
from .multivariate_normal import MultivariateNormal
from .negative_binomial import NegativeBinomial
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .relaxed_bernoulli import RelaxedBernoulli
from .relaxed_one_hot_categorical import RelaxedOneHotCategorical
from .studentT import StudentT
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import (
    cached_property,
    constraint_check,
    digamma,
    erf,
    erfinv,
    gammaln,
    logit2prob,
    prob2logit,
    sample_n_shape_converter,
)
from .weibull import Weibull

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Boolean", "Cat", "Categorical", "Cauchy", "Chi2", "Constraint", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "Geometric", "GreaterThan",
    "GreaterThanEq", "Gumbel", "HalfCauchy", "HalfNormal", "HalfOpenInterval", "Independent", "IntegerGreaterThan",
    "IntegerGreaterThanEq", "IntegerHalfOpenInterval", "IntegerInterval", "IntegerLessThan", "IntegerLessThanEq",
    "IntegerOpenInterval", "Interval", "Laplace", "LessThan", "LessThanEq", "LowerCholesky", "LowerTriangular",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "NonNegative", "NonNegativeInteger", "Normal",
    "OneHotCategorical", "OpenInterval", "Pareto", "Poisson", "Positive", "PositiveDefinite", "PositiveInteger",
    "Real", "RelaxedBernoulli", "RelaxedOneHotCategorical", "Simplex", "Stack", "StudentT", "TransformedDistribution",
    "Uniform", "UnitInterval", "Weibull", "bernoulli", "beta", "binomial", "cached_property", "categorical", "cauchy",
    "chi2", "constraint", "constraint_check", "digamma", "dirichlet", "distribution", "divergence", "empirical_kl",
    "erf", "erfinv", "exp_family", "exponential", "fishersnedecor", "gamma", "gammaln", "geometric", "gumbel",
    "half_cauchy", "half_normal", "independent", "kl_divergence", "laplace", "logit2prob", "multinomial",
    "multivariate_normal", "negative_binomial", "normal", "one_hot_categorical", "pareto", "poisson", "prob2logit",
    "register_kl", "relaxed_bernoulli", "relaxed_one_hot_categorical", "sample_n_shape_converter", "studentT",
    "transformed_distribution", "uniform", "utils", "weibull",
]  # fmt: skip
