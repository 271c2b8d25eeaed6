def layer_value_and_grad_device(comm_data, comm_model, W_0, b_0, W_1, x, y):
    # forward
    tanh_x = np.tanh(x @ W_0 + b_0)
    error = comm_model.psum(tanh_x @ W_1) - y

    # reverse
    # return pmean(np.mean(error * error), "data")
    error_bar = 0.020833333333333332 * error + 0.020833333333333332 * error
    # error = psum(np.tanh(x @ W_0 + b_0) @ W_1, "model") - y
    W_1_bar = tanh_x.T @ error_bar
    W_1_bar = comm_data.psum(W_1_bar)
    error_bar_times_x = error_bar @ W_1.T * (1.0 - tanh_x * tanh_x)
    b_0_bar = np.sum(error_bar_times_x, axis=0)
    b_0_bar = comm_data.psum(b_0_bar)
    W_0_bar = x.T @ error_bar_times_x
    W_0_bar = comm_data.psum(W_0_bar)
    return comm_data.psum(np.mean(error * error)) / 2, (W_0_bar, b_0_bar, W_1_bar)


def layer_value_and_grad_shard_map(W_0, b_0, W_1, x, y):
    """4 devices, each on its part; whole arrays in and out."""
    arguments = [
        (
            np.split(W_0, 2, axis=1)[j],
            np.split(b_0, 2)[j],
            np.split(W_1, 2)[j],
            np.split(x, 2)[i],
            np.split(y, 2)[i],
        ) for i in range(2) for j in range(2)
    ]
    results = run(layer_value_and_grad_device, arguments, {}, (2, 2))
    return (
        results[0][0],
        (
            np.concatenate([results[j][1][0] for j in range(2)], axis=1),
            np.concatenate([results[j][1][1] for j in range(2)]),
            np.concatenate([results[j][1][2] for j in range(2)])
        )
    )
