"""Rotations obey the laws of their group and agree with SciPy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from spectral_skills import quaternion, rotation

_unit = st.floats(-1, 1, allow_subnormal=False)
angles = st.floats(-3.1, 3.1)
IDENTITY = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)


def to_matrix(q: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3): their columns are the rotated axes."""
    return rotation.rotate(q[..., None, :], torch.eye(3).to(q)).mT


@st.composite
def quaternions(draw):
    """A unit quaternion from anywhere on the sphere, float64."""
    values = np.array(draw(st.tuples(_unit, _unit, _unit, _unit)))
    length = np.linalg.norm(values)
    assume(length > 0.1)
    return torch.from_numpy(values / length)


@st.composite
def vectors(draw):
    """A vector of some size, float64."""
    return 5 * torch.tensor(draw(st.tuples(_unit, _unit, _unit)), dtype=torch.float64)


def close(a, b, atol=1e-9):
    torch.testing.assert_close(a, b, atol=atol, rtol=0)


def same_rotation(a, b, atol=1e-9):
    """Equal up to the sign of the double cover."""
    sign = torch.where((a * b).sum(-1, keepdim=True) < 0, -1.0, 1.0)
    close(a, sign * b, atol)


def to_scipy(q) -> Rotation:
    return Rotation.from_quat(np.roll(q.numpy(), -1, axis=-1))


def random_quaternions(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(*shape, 4, generator=generator, dtype=torch.float64)
    return rotation.normalize(values)


@given(quaternions(), quaternions(), quaternions())
def test_group_axioms(a, b, c):
    """Associative, with identity and inverse; products stay unit."""
    left = rotation.multiply(rotation.multiply(a, b), c)
    close(left, rotation.multiply(a, rotation.multiply(b, c)))
    close(rotation.multiply(a, IDENTITY), a)
    close(rotation.multiply(IDENTITY, a), a)
    close(rotation.multiply(a, rotation.conjugate(a)), IDENTITY)
    close(rotation.multiply(rotation.conjugate(a), a), IDENTITY)
    close(left.norm(), torch.tensor(1.0, dtype=torch.float64))


@given(quaternions(), quaternions())
def test_inverse_of_product_is_product_of_inverses_reversed(a, b):
    """(a b)^-1 = b^-1 a^-1."""
    inverse = rotation.conjugate(rotation.multiply(a, b))
    close(inverse, rotation.multiply(rotation.conjugate(b), rotation.conjugate(a)))


@given(quaternions(), quaternions(), vectors())
def test_double_cover(q, other, v):
    """q and -q are the same rotation, for every function that sees rotations."""
    close(rotation.rotate(-q, v), rotation.rotate(q, v))
    close(to_matrix(-q), to_matrix(q))
    close(rotation.to_rot6d(-q), rotation.to_rot6d(q))
    close(rotation.angle_between(-q, other), rotation.angle_between(q, other), 1e-7)
    same_rotation(rotation.heading(-q), rotation.heading(q))
    turn = rotation.yaw(-q) - rotation.yaw(q)
    assert math.cos(turn) == pytest.approx(1.0)
    # At exactly half a turn both signs of the vector are right.
    assume(abs(float(q[0])) > 1e-9)
    close(rotation.log(-q), rotation.log(q))


@given(quaternions(), quaternions(), vectors())
def test_rotate_is_the_matrix_and_a_group_action(a, b, v):
    """R(q) v, (ab) v = a (b v), and the inverse undoes it."""
    close(rotation.rotate(a, v), to_matrix(a) @ v, 1e-8)
    product = rotation.multiply(a, b)
    close(rotation.rotate(product, v), rotation.rotate(a, rotation.rotate(b, v)), 1e-8)
    close(rotation.rotate_inverse(a, rotation.rotate(a, v)), v, 1e-8)
    close(rotation.rotate(a, v).norm(), v.norm(), 1e-8)


@given(quaternions(), quaternions())
def test_matrix_is_a_homomorphism_into_rotations(a, b):
    """Products map to products; matrices are orthogonal with determinant one."""
    matrix = to_matrix(a)
    product = to_matrix(rotation.multiply(a, b))
    close(product, matrix @ to_matrix(b))
    close(matrix @ matrix.T, torch.eye(3, dtype=torch.float64))
    close(torch.linalg.det(matrix), torch.tensor(1.0, dtype=torch.float64))


@given(quaternions())
def test_from_matrix_inverts_to_matrix(q):
    """The same quaternion up to sign, with w >= 0."""
    back = rotation.from_matrix(to_matrix(q))
    assert back[0] >= 0
    same_rotation(back, q, 1e-7)


@pytest.mark.parametrize("axis", range(3))
def test_from_matrix_at_half_turns(axis):
    """Half turns have w = 0: each needs its own pivot."""
    q = torch.eye(4, dtype=torch.float64)[axis + 1]
    same_rotation(rotation.from_matrix(to_matrix(q)), q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "angle", [0.0, 1e-30, 1e-20, 1e-12, 1e-8, 1e-4, 0.1, 1.0, 3.0, math.pi - 1e-4]
)
def test_exp_and_log_are_inverse(angle, dtype):
    """From no turn through tiny ones to nearly half a turn."""
    axis = torch.tensor([[1.0, 0, 0], [0, -1, 0], [0.6, 0, 0.8], [-0.48, 0.6, 0.64]])
    v = angle * axis.to(dtype)
    q = rotation.exp(v)
    single = dtype == torch.float32
    close(q.norm(dim=-1), torch.ones(4, dtype=dtype), 1e-6 if single else 1e-12)
    torch.testing.assert_close(
        rotation.log(q), v, rtol=1e-5 if single else 1e-9, atol=0
    )


@given(quaternions())
def test_log_and_exp_are_inverse(q):
    """exp(log q) is q up to sign; the angle is never more than pi."""
    v = rotation.log(q)
    assert v.norm() <= math.pi + 1e-12
    same_rotation(rotation.exp(v), q)


def test_log_at_half_a_turn_has_length_pi():
    """w = 0 of either sign gives a turn by pi about the axis."""
    for w in (0.0, -0.0, 1e-12, -1e-12):
        q = torch.tensor([w, 0.6, 0.0, -0.8], dtype=torch.float64)
        assert float(rotation.log(q).norm()) == pytest.approx(math.pi)


@given(quaternions(), st.floats(0, 3.1), quaternions())
def test_angle_between(q, angle, direction):
    """Recovers a known turn, from either side, and is symmetric."""
    assume(float(direction[1:].norm()) > 1e-3)
    axis = direction[1:] / direction[1:].norm()
    turn = rotation.from_axis_angle(axis, torch.tensor(angle, dtype=torch.float64))
    expected = torch.tensor(angle, dtype=torch.float64)
    close(rotation.angle_between(rotation.multiply(turn, q), q), expected, 1e-7)
    close(rotation.angle_between(q, rotation.multiply(turn, q)), expected, 1e-7)
    close(rotation.angle_between(rotation.multiply(q, turn), q), expected, 1e-7)


def test_from_axis_angle_is_exp():
    """exp(angle axis) for unit axes."""
    axis = torch.nn.functional.normalize(random_quaternions(20)[:, 1:], dim=-1)
    angle = torch.linspace(-3, 3, 20, dtype=torch.float64)
    close(rotation.from_axis_angle(axis, angle), rotation.exp(angle[:, None] * axis))


@given(quaternions(), quaternions(), st.floats(0, 1))
def test_slerp(a, b, weight):
    """Ends, constant speed, the short way, whatever the signs."""

    def at(w, start=a, end=b):
        return rotation.slerp(start, end, torch.tensor(w, dtype=torch.float64))

    # Nearly half a turn apart, the short way round is a matter of rounding.
    whole = rotation.angle_between(a, b)
    assume(whole < math.pi - 1e-5)
    same_rotation(at(0.0), a)
    same_rotation(at(1.0), b, 1e-8)
    close(rotation.angle_between(at(weight), a), weight * whole, 1e-7)
    close(rotation.angle_between(at(weight), b), (1 - weight) * whole, 1e-7)
    same_rotation(at(weight, a, -b), at(weight), 1e-7)
    same_rotation(at(0.5, b, a), at(0.5), 1e-7)


def test_slerp_midpoint_of_a_quarter_turn():
    """Half of 90 degrees about z is 45 degrees about z."""
    start, end = (rotation.from_yaw(torch.tensor(a)) for a in (0.0, math.pi / 2))
    middle = rotation.slerp(start, -end, torch.tensor(0.5))
    same_rotation(middle, rotation.from_yaw(torch.tensor(math.pi / 4)), 1e-6)


def test_rot6d_layout():
    """First two columns of the matrix, row by row: R00 R01 R10 R11 R20 R21."""
    q = random_quaternions(10)
    matrix = to_matrix(q)
    expected = [matrix[:, i, j] for i in range(3) for j in range(2)]
    close(rotation.to_rot6d(q), torch.stack(expected, dim=-1))
    quarter = rotation.from_yaw(torch.tensor(math.pi / 2))
    close(rotation.to_rot6d(quarter), torch.tensor([0.0, -1, 1, 0, 0, 0]), 1e-6)


@given(quaternions(), st.floats(0.1, 10), st.floats(-0.5, 0.5))
def test_rot6d_inverse(q, scale, shear):
    """from_rot6d inverts to_rot6d; scaled and sheared columns do no harm."""
    rot6d = rotation.to_rot6d(q)
    same_rotation(rotation.from_rot6d(rot6d), q, 1e-7)
    first, second = rot6d[0::2], rot6d[1::2]
    noisy = torch.stack((scale * first, second + shear * first), dim=-1).flatten()
    same_rotation(rotation.from_rot6d(noisy), q, 1e-7)


@given(angles, angles, st.floats(-3.0, 3.0))
def test_heading_is_the_twist_about_the_vertical(turn, direction, tilt):
    """A tilt about any horizontal axis, on either side, leaves the heading alone."""
    angle = torch.tensor(turn, dtype=torch.float64)
    vector = torch.tensor([math.cos(direction), math.sin(direction), 0.0])
    lean = rotation.exp(tilt * vector.double())
    yaw_only = rotation.from_yaw(angle)
    for q in (rotation.multiply(yaw_only, lean), rotation.multiply(lean, yaw_only)):
        same_rotation(rotation.heading(q), yaw_only, 1e-8)
        close(rotation.yaw(q), angle, 1e-7)


@given(quaternions(), angles)
def test_heading_laws(q, turn):
    """Idempotent; turning the world turns it; yaw is its angle."""
    assume(float(q[0] ** 2 + q[3] ** 2) > 1e-4)
    heading = rotation.heading(q)
    assert heading[1] == heading[2] == 0
    close(rotation.heading(heading), heading)
    same_rotation(rotation.from_yaw(rotation.yaw(q)), heading)
    world = rotation.from_yaw(torch.tensor(turn, dtype=torch.float64))
    turned = rotation.heading(rotation.multiply(world, q))
    same_rotation(turned, rotation.multiply(world, heading))
    # What is left without the heading has no twist.
    rest = rotation.multiply(rotation.conjugate(heading), q)
    assert abs(float(rest[3])) < 1e-9


def test_heading_upside_down_is_defined():
    """Lying on the back of the sphere there is no twist: zero, not NaN."""
    q = torch.tensor([[0.0, 1, 0, 0], [0, 0.6, -0.8, 0]])
    close(rotation.heading(q), torch.tensor([[1.0, 0, 0, 0]] * 2))


def test_heading_is_not_the_euler_angle():
    """Past 90 degrees of lean the Euler yaw flips by half a turn; the twist stays."""
    for lean in (1.4, 1.8):
        pitch = rotation.exp(torch.tensor([0.0, lean, 0.0]))
        q = rotation.multiply(rotation.from_yaw(torch.tensor(0.3)), pitch)
        assert float(rotation.yaw(q)) == pytest.approx(0.3, abs=1e-6)
    euler = to_scipy(q).as_euler("ZYX")[0]
    assert abs(euler - 0.3) > 3.0


def test_planes_equal_stacked():
    """The plane versions are the stacked ones, component by component."""
    a, b = random_quaternions(2, 5, 7)
    v = b[..., 1:]
    planes = rotation.multiply_planes(a.unbind(-1), b.unbind(-1))
    close(torch.stack(planes, dim=-1), rotation.multiply(a, b), 0)
    planes = rotation.rotate_planes(a.unbind(-1), v.unbind(-1))
    close(torch.stack(planes, dim=-1), rotation.rotate(a, v), 0)


def test_leading_shapes_broadcast():
    """Any leading shape, the empty one and size zero included."""
    for shape in ((), (0,), (3,), (2, 3)):
        q, v = random_quaternions(*shape), torch.ones(*shape, 3, dtype=torch.float64)
        assert rotation.multiply(q, IDENTITY).shape == (*shape, 4)
        assert rotation.rotate(q, v).shape == (*shape, 3)
        assert to_matrix(q).shape == (*shape, 3, 3)
        assert rotation.from_matrix(to_matrix(q)).shape == (*shape, 4)
        assert rotation.from_rot6d(rotation.to_rot6d(q)).shape == (*shape, 4)
        assert rotation.log(q).shape == (*shape, 3)
        assert rotation.yaw(q).shape == shape


def test_agrees_with_scipy():
    """Product, matrix, rotation vector and action, on a thousand rotations."""
    a, b = random_quaternions(2, 1000)
    v = random_quaternions(1000)[:, 1:]
    ours, theirs = to_scipy(a), to_scipy(b)
    product = np.roll((ours * theirs).as_quat(), 1, axis=-1)
    same_rotation(rotation.multiply(a, b), torch.from_numpy(product))
    close(to_matrix(a), torch.from_numpy(ours.as_matrix()))
    close(rotation.log(a), torch.from_numpy(ours.as_rotvec()))
    close(rotation.rotate(a, v), torch.from_numpy(ours.apply(v.numpy())))
    angle = torch.from_numpy((ours * theirs.inv()).magnitude())
    close(rotation.angle_between(a, b), angle, 1e-8)


@pytest.mark.parametrize("function", [rotation.exp, rotation.log, rotation.to_rot6d])
def test_derivatives_match_finite_differences(function):
    """Autograd agrees with finite differences away from zero."""
    size = 3 if function is rotation.exp else 4
    x = random_quaternions(5)[:, :size].clone().requires_grad_()
    assert torch.autograd.gradcheck(function, (x,))


@given(quaternions(), angles)
def test_numpy_rows_follow_the_same_rules(q, angle):
    """Heading, turns and gravity of NumPy rows are those of tensors."""
    row = q.numpy()
    w, z = row[0], row[3]
    assume(w * w + z * z > 1e-6)
    assert quaternion.heading(row) == pytest.approx(float(rotation.yaw(q)), abs=1e-9)
    about_z = rotation.from_yaw(torch.tensor(angle, dtype=torch.float64))
    close(
        torch.from_numpy(quaternion.turned(row, angle)), rotation.multiply(about_z, q)
    )
    down = rotation.rotate_inverse(q, torch.tensor([0.0, 0.0, -1.0]).double())
    close(torch.tensor(quaternion.gravity_planes(row)), down)
