// The Jacobian of bundle adjustment by hand, for benchmarks/sparse_derivatives.py: two rows for each
// observation, with 10 entries of the camera (rotation, centre, focal length, the row's own
// coordinate of the principal point, two distortions) and 3 of the point.
// d(R x)/dr = -R [x] (r r^T + (R^T - 1) [r]) / |r|^2: Gallego and Yezzi, 2015.

#include <cmath>

static void cross_matrix(const double *a, double m[3][3])
{
    m[0][0] = 0, m[0][1] = -a[2], m[0][2] = a[1];
    m[1][0] = a[2], m[1][1] = 0, m[1][2] = -a[0];
    m[2][0] = -a[1], m[2][1] = a[0], m[2][2] = 0;
}

static void product(const double a[3][3], const double b[3][3], double c[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
}

extern "C" void jacobian(
    long observations, const double *cameras, const double *points, const long *camera,
    const long *point, double *data)
{
    for (long k = 0; k < observations; k++) {
        const double *c = cameras + 11 * camera[k], *p = points + 3 * point[k];
        const double *r = c;
        double x[3], y[3], w[3], R[3][3], W[3][3], X[3][3], turned[3][3], M[3][3], D[3][3], N[3][3];
        for (int i = 0; i < 3; i++) x[i] = p[i] - c[3 + i];
        double square_angle = r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
        double angle = std::sqrt(square_angle), sine = std::sin(angle), cosine = std::cos(angle);
        for (int i = 0; i < 3; i++) w[i] = r[i] / angle;
        cross_matrix(w, W);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                R[i][j] = (i == j) * cosine + sine * W[i][j] + (1 - cosine) * w[i] * w[j];
        for (int i = 0; i < 3; i++) y[i] = R[i][0] * x[0] + R[i][1] * x[1] + R[i][2] * x[2];
        cross_matrix(r, W);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) turned[i][j] = R[j][i] - (i == j);
        product(turned, W, M);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) M[i][j] = (M[i][j] + r[i] * r[j]) / square_angle;
        cross_matrix(x, X);
        product(R, X, N);
        product(N, M, D);
        double u[2] = {y[0] / y[2], y[1] / y[2]}, focal = c[6];
        double s = u[0] * u[0] + u[1] * u[1], L = 1 + c[9] * s + c[10] * s * s;
        double slope = c[9] + 2 * c[10] * s;
        double A[2][3];
        for (int i = 0; i < 2; i++) {
            double by[2];
            for (int j = 0; j < 2; j++) by[j] = focal * ((i == j) * L + 2 * slope * u[i] * u[j]);
            A[i][0] = by[0] / y[2], A[i][1] = by[1] / y[2];
            A[i][2] = -(by[0] * u[0] + by[1] * u[1]) / y[2];
        }
        for (int i = 0; i < 2; i++) {
            double *out = data + 26 * k + 13 * i;
            for (int j = 0; j < 3; j++) {
                double by_point = A[i][0] * R[0][j] + A[i][1] * R[1][j] + A[i][2] * R[2][j];
                out[j] = -(A[i][0] * D[0][j] + A[i][1] * D[1][j] + A[i][2] * D[2][j]);
                out[3 + j] = -by_point;
                out[10 + j] = by_point;
            }
            out[6] = L * u[i];
            out[7] = 1;
            out[8] = focal * s * u[i];
            out[9] = focal * s * s * u[i];
        }
    }
}
