"""The class that makes random views of each image."""

from collections.abc import Sequence
from functools import partial

import torch

from amcl.seeds import seed_of
from amcl.settings import whole_number
from amcl.views import boxes, operations
from amcl.views.channels import check_channels
from amcl.views.parameters import ViewParameters
from amcl.views.settings import ViewSettings, numbers

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_CPU_CHUNK = 2**20  # values that a CPU works on at once: few enough for its cache
_DEFAULTS = ViewSettings()
_SEEDS = 2**62
_DTYPES = (torch.uint8, torch.uint16, torch.float32)


class Views:
    """Random views of each image in a batch, made on the device of the images.

    The operations are crop, flip, jitter, grayscale, blur, solarize, noise and channel drop, in
    this order, then (x − mean) / std. All randomness is in `draw`: the same generator gives the
    same views on every device, but for the values of the noise, and a part of the batch gives that
    part of the views, bit for bit on a CPU. Operations that are off draw their random numbers too,
    so that the others do not change.

    Images that are not RGB have operations of their own, see `suited`; of these images the jitter
    cuts off no values. 8 bits, 16 bits and float32 become float32 at once.

    Args:
        size: Side of the views in pixels.
        settings: Settings of the operations; an error if they are not for this number of channels.
        mean: Mean of each of C channels, for images in [0, 1]; by default that of ImageNet.
        std: Standard deviation of the channels; by default that of ImageNet.
        count: Number of views of each image. Settings that differ between the first and the second
            view are those of the second in all further views.

    Example:
        >>> views = Views(size=32)
        >>> parameters = views.draw(8, generator=torch.Generator().manual_seed(0))
        >>> images = torch.randint(256, (8, 3, 40, 48), dtype=torch.uint8)
        >>> views(images, parameters).shape
        torch.Size([2, 8, 3, 32, 32])
        >>> views(images).shape  # draws parameters by itself
        torch.Size([2, 8, 3, 32, 32])
    """

    def __init__(
        self,
        size: int,
        settings: ViewSettings = _DEFAULTS,
        *,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        count: int = 2,
    ) -> None:
        self.size = whole_number("size", size)
        self.settings = settings
        self.count = whole_number("count", count)
        self.taps = settings.blur_kernel or max(3, size // 10 | 1)
        if "b" in settings.operations and self.taps // 2 >= size:
            raise ValueError(
                f"A blur of {self.taps} pixels is too wide for views of size = {size}: lower "
                "blur_kernel, or leave 'b' out of views."
            )
        self.channels = whole_number("the number of means", len(mean), "give one for each channel")
        mean = numbers("mean", mean, self.channels)
        if len(std) != self.channels:
            raise ValueError(
                f"mean has {self.channels} numbers and std has {len(std)}: give one for each "
                "channel of the images in both."
            )
        std = numbers("std", std, self.channels)
        check_channels(settings, self.channels)
        if min(std) <= 0:
            raise ValueError(f"std must be above 0 in each channel, got {std}.")
        self._mean = torch.tensor(mean)
        self._std = torch.tensor(std)
        self._factor = 1 / self._std.view(-1, 1, 1)
        self._offset = -self._mean.view(-1, 1, 1) * self._factor

    def draw(
        self, n: int, *, generator: torch.Generator, shapes: torch.Tensor | None = None
    ) -> ViewParameters:
        """Draw the parameters of the views of n images.

        Args:
            n: Number of images.
            generator: Source of randomness, on the CPU.
            shapes: True heights and widths (n, 2) of images that are stored squashed; the ratio of
                a crop is that in the true shape. None for square images.

        Returns:
            The parameters, on the CPU.
        """
        if generator.device.type != "cpu":
            raise ValueError(
                f"draw needs a generator on the CPU, got one on {generator.device}: the same seed "
                "then gives the same views on every device."
            )
        settings = self.settings
        views = self.count
        uniform = torch.rand(5, views, n, generator=generator)
        strength = torch.rand(views, n, 4, generator=generator)
        order = torch.rand(views, n, 4, generator=generator).argsort(-1)
        least_sigma, greatest_sigma = settings.blur_sigma
        sigma = torch.rand(views, n, generator=generator) * (greatest_sigma - least_sigma)
        # The number of random numbers that boxes take varies: they get their own generator.
        seed = int(torch.randint(2**62, (), generator=generator))
        crops = self._draw_boxes(n, shapes, torch.Generator().manual_seed(seed))

        def happens(row: int, letter: str, p: float | tuple[float, float]) -> torch.Tensor:
            first, other = p if isinstance(p, tuple) else (p, p)
            limits = torch.tensor([first, *[other] * (views - 1)]).view(-1, 1)
            return (uniform[row] < limits) & (letter in settings.operations)

        return ViewParameters(
            boxes=crops,
            flip=happens(0, "e", settings.flip_p),
            jitter=self._factors(strength, happens(1, "d", settings.jitter_p)),
            order=order,
            gray=happens(2, "c", settings.gray_p),
            sigma=(sigma + least_sigma) * happens(3, "b", settings.blur_p),
            solarize=happens(4, "s", settings.solarize_p),
            **self._draw_on_channels(n, seed),
        )

    def __call__(
        self,
        images: torch.Tensor,
        parameters: ViewParameters | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Make the views.

        Args:
            images: uint8, uint16 or float32 (N, C, H, W), as they are stored.
            parameters: Result of `draw`; with ``parameters.first()`` there is one view. None draws
                them from `generator`.
            generator: Source of randomness; None takes torch's global one.

        Returns:
            Views (count, N, C, size, size), float32, normalized.
        """
        if parameters is None:
            if generator is None:
                seed = int(torch.randint(2**62, (), device="cpu"))
                generator = torch.Generator().manual_seed(seed)
            parameters = self.draw(len(images), generator=generator)
        elif generator is not None:
            raise ValueError("give parameters, which are drawn already, or a generator, not both.")
        if len(parameters) != len(images):
            raise ValueError(
                f"{len(images)} images came with the parameters of {len(parameters)}: draw as "
                "many, or take a part with parameters.rows(start, stop)."
            )
        return self._in_chunks(images, parameters.boxes, parameters.flip, parameters)

    def plain(
        self,
        images: torch.Tensor,
        shapes: torch.Tensor | None = None,
        crop: float | None = None,
    ) -> torch.Tensor:
        """Resize and normalize images, for a test.

        Args:
            images: uint8, uint16 or float32 (N, C, H, W), as they are stored.
            shapes: True heights and widths (N, 2) of images that are stored squashed.
            crop: Share of the shorter side that a central square takes, in the true shapes; None
                takes all of the image as it is stored.

        Returns:
            Images (N, C, size, size), float32, normalized.
        """
        n = len(images)
        crops = boxes.full_boxes(n) if crop is None else boxes.central_boxes(n, shapes, crop)
        return self._in_chunks(images, crops[None], torch.zeros(1, n, dtype=torch.bool)).squeeze(0)

    def __repr__(self) -> str:
        return f"Views(size={self.size}, {self.settings})"

    @torch.no_grad()
    def _in_chunks(
        self,
        images: torch.Tensor,
        crops: torch.Tensor,
        flip: torch.Tensor,
        colors: ViewParameters | None = None,
    ) -> torch.Tensor:
        """Make views (V, N, C, size, size) from boxes (V, N, 4): crop, color, normalize."""
        self._check(images)
        count, n = flip.shape
        channels = self.channels
        device = images.device
        height, width = images.shape[2:]
        step = max(1, n)
        if device.type == "cpu":
            step = max(1, _CPU_CHUNK // (channels * max(count * self.size**2, height * width)))
        rows, columns = operations.crop_taps(
            crops.to(device), flip.to(device), (height, width), self.size
        )
        factor = self._factor.to(device)
        offset = self._offset.to(device)
        out = torch.empty(count, n, channels, self.size, self.size, device=device)
        for start in range(0, n, step):
            part = slice(start, start + step)
            planes = operations.planes(images[part])
            x = operations.crop(planes, rows.select(part), columns.select(part))
            if colors is not None:
                self._color(x, colors.rows(start, start + step))
            x = x.view(channels, count, -1, self.size, self.size)
            torch.addcmul(offset, x.permute(1, 2, 0, 3, 4), factor, out=out[:, part])
        return out

    def _color(self, x: torch.Tensor, parameters: ViewParameters) -> None:
        """Jitter, gray, blur, solarize, noise and channel drop (C, V·n, size, size); in place."""
        if "d" in self.settings.operations:
            factors = parameters.jitter.flatten(0, 1)
            if self.channels == 3:
                operations.jitter(x, factors, parameters.order.flatten(0, 1))
            else:
                operations.scale_contrast(x, factors[:, : operations.SATURATION])
        sigma = parameters.sigma.flatten()
        gray, blurred, solarized = (
            mask.flatten().nonzero().squeeze(1)
            for mask in (parameters.gray, parameters.sigma, parameters.solarize)
        )
        blur = partial(operations.blur, sigma=sigma[blurred], taps=self.taps)
        solarize = partial(operations.solarize, threshold=self.settings.solarize_threshold)
        operations.apply_to(x, gray, operations.drop_color)
        operations.apply_to(x, blurred, blur)
        operations.apply_to(x, solarized, solarize)
        if "n" in self.settings.operations:
            noise = parameters.noise.flatten()
            noisy = noise.nonzero().squeeze(1)
            seeds = parameters.noise_seed.flatten()[noisy]
            sigma = self._std.to(noise.device)[:, None] * noise[noisy]
            operations.apply_to(x, noisy, partial(operations.add_noise, sigma=sigma, seeds=seeds))
        if "h" in self.settings.operations:
            operations.set_channels(x, parameters.dropped.flatten(0, 1), self._mean)

    def _check(self, images: torch.Tensor) -> None:
        """Raise an error unless these are stored images of our number of channels."""
        if images.dtype not in _DTYPES or images.ndim != 4:
            raise ValueError(
                "images must be uint8, uint16 or float32 of shape (N, C, H, W), got "
                f"{images.dtype} of shape {tuple(images.shape)}: keep images as they are stored, "
                "with the channels first."
            )
        if images.shape[1] != self.channels:
            raise ValueError(
                f"these views are of images of {self.channels} channels, as many as there are "
                f"means, and the images are {tuple(images.shape)}, (N, C, H, W): give a mean and a "
                "std for each channel, and the channels first."
            )

    def _draw_on_channels(self, n: int, seed: int) -> dict[str, torch.Tensor]:
        """Draw channel drops and noise, with a generator of their own: views of RGB have neither.

        Of C channels up to half are dropped, any number of them as likely as another.
        """
        settings = self.settings
        generator = torch.Generator().manual_seed(seed_of(seed, "channels"))
        drop, many, noisy, strength = torch.rand(4, self.count, n, generator=generator)
        rank = torch.rand(self.count, n, self.channels, generator=generator).argsort(-1).argsort(-1)
        seeds = torch.randint(_SEEDS, (self.count, n), generator=generator)
        most = max(self.channels // 2, 1)
        number = (many * most).floor() + 1
        drop = (drop < settings.channel_drop_p) & ("h" in settings.operations)
        noisy = (noisy < settings.noise_p) & ("n" in settings.operations)
        low, high = settings.noise_sigma
        return {
            "dropped": (rank < number[..., None]) & drop[..., None],
            "noise": (low + (high - low) * strength) * noisy,
            "noise_seed": seeds,
        }

    def _draw_boxes(
        self, n: int, shapes: torch.Tensor | None, generator: torch.Generator
    ) -> torch.Tensor:
        settings = self.settings
        shapes = torch.ones(n, 2) if shapes is None else shapes
        if shapes.shape != (n, 2) or not (shapes > 0).all():
            raise ValueError(
                f"shapes must be ({n}, 2), a height and a width above 0 for each image, got "
                f"{tuple(shapes.shape)}: give the shapes of the {n} images, or None."
            )
        if "a" not in settings.operations:
            return boxes.full_boxes(n).expand(self.count, -1, -1)
        sampler = boxes.BoxSampler(shapes, settings.crop_scale, settings.crop_ratio, generator)
        if self.count != 2:
            return torch.stack([sampler.boxes() for _ in range(self.count)])
        if settings.overlap is None:
            return sampler.pair(settings.min_overlap)
        return sampler.pair_with_overlap(settings.overlap)

    def _factors(self, strength: torch.Tensor, happens: torch.Tensor) -> torch.Tensor:
        """Return jitter factors (V, n, 4) in torchvision's ranges from numbers in [0, 1]."""
        neutral = torch.tensor([1.0, 1.0, 1.0, 0.0])
        most = torch.tensor(self.settings.jitter)
        low = torch.where(neutral == 0, -most, (neutral - most).clamp_min(0))
        return torch.where(happens[..., None], low.lerp(neutral + most, strength), neutral)
