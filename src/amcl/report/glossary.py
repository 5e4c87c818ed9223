"""What the names of numbers on a page mean, shown where a reader points at them."""

EXPLANATIONS = {
    "epochs": "Passes over the training images.",
    "loss": "What training makes small, in the mean over the last epoch. Losses of different "
    "methods or temperatures are not to be compared.",
    "kNN, validation": "Accuracy of the k most similar training images, which vote on the class of "
    "each image held out of training.",
    "kNN, test": "Accuracy of the k most similar training images, which vote on the class of each "
    "test image.",
    "effective rank": "How many directions the features make use of; near 1 they have collapsed.",
    "AUROC, heads": "Share of cases in which two views of one image are more alike, after the "
    "heads, than views of two images; 0.5 is chance.",
    "AUROC, backbone": "Share of cases in which two views of one image are more alike, after the "
    "backbone, than views of two images; 0.5 is chance.",
    "AUROC": "Share of cases in which two views of one image are more alike than views of two "
    "images; 0.5 is chance.",
    "overlap": "Area that the histograms of positive and negative pairs share: 0 if they are "
    "apart, 1 if they are the same.",
    "positive, mean": "Mean similarity of two views of one image.",
    "negative, mean": "Mean similarity of views of two images.",
    "mean": "Mean temperature over pairs.",
    "std": "Standard deviation of the temperature over pairs.",
    "5%": "Temperature below which 5% of the pairs lie.",
    "median": "Temperature below which half of the pairs lie.",
    "95%": "Temperature below which 95% of the pairs lie.",
    "at lower": "Share of pairs within 1% of the lower bound of the temperature.",
    "at upper": "Share of pairs within 1% of the upper bound of the temperature.",
    "between heads": "Variance of the temperature of one pair over heads, in the mean over pairs.",
    "between pairs": "Variance of the temperature over pairs in one head, in the mean over heads.",
    "own image first": "Share of views whose most similar view is the other one of their image.",
    "nearest other of its class": "Share of views whose most similar view of another image is of "
    "their class.",
    "accuracy": "Share of the images of the class that are classified as such.",
}
"""Explanations by the names of facts, of columns and of rows."""
