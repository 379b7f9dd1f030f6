"""Files whatever they hold: written whole, downloaded, unpacked, and the formats of images and of MNIST."""
