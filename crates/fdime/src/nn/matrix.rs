//! Row-major matrix views and their product.

use gemm_common::Parallelism;

/// A matrix in a slice, with element (r, c) at `r * row_stride + c * column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(super) data: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Returns the first `rows * columns` elements of a slice as a row-major matrix.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Matrix {
            data: &data[..rows * columns],
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
        }
    }

    pub(crate) fn transposed(self) -> Self {
        Matrix {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// Whether a product replaces the destination or is added to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Replace,
    Add,
}

/// Computes destination (row-major) = left * right, or += with [`Write::Add`].
pub(crate) fn multiply(destination: &mut [f32], write: Write, left: Matrix, right: Matrix) {
    let (m, k, n) = (left.rows, left.columns, right.columns);
    assert_eq!(k, right.rows, "inner dimensions");
    let destination = &mut destination[..m * n];
    if m == 0 || n == 0 {
        return;
    }
    // The kernel writes columns, so a row-major product is computed transposed: C' = B' A'.
    let (rows, columns, left, right) =
        if n > 1 { (n, m, right.transposed(), left.transposed()) } else { (m, n, left, right) };
    let (column_stride, row_stride) = (n as isize, 1);
    // SAFETY: each view's slice holds rows * columns elements laid out by its strides
    // (`Matrix::new` checks it, `transposed` keeps it), and `destination` holds m * n, checked
    // above. It is borrowed mutably, so it overlaps neither operand.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            rows,
            columns,
            k,
            destination.as_mut_ptr(),
            column_stride,
            row_stride,
            write == Write::Add,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_plain_and_transposed_matrices() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2x3
        let b = [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]; // 3x2
        let mut c = [10.0f32; 4];
        multiply(&mut c, Write::Replace, Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2));
        assert_eq!(c, [5.0, 11.0, 14.0, 23.0]);
        multiply(&mut c, Write::Add, Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2));
        assert_eq!(c, [10.0, 22.0, 28.0, 46.0]);
        let mut d = [0.0f32; 9];
        multiply(
            &mut d,
            Write::Replace,
            Matrix::new(&a, 2, 3).transposed(),
            Matrix::new(&b, 3, 2).transposed(),
        );
        assert_eq!(d, [1.0, 6.0, 12.0, 2.0, 9.0, 15.0, 3.0, 12.0, 18.0]);
    }
}
